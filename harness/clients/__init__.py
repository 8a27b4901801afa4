"""One interface to two Kafka client libraries: librdkafka, and kafka-clients for Java.

Begin with `interface`. `errors.toml` lists what each error means, and `error_table` reads it.
"""
