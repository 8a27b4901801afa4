"""The Kafka client libraries behind one interface: librdkafka, and kafka-clients for Java.

Begin with `interface`. `errors.toml` lists which error proves a failure, and `error_table` reads it.
"""
