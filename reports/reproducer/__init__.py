"""Make a folder for the public from a run: what a maintainer of Kafka or of a client needs to repeat a finding."""
