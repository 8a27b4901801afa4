"""Stores that a pipeline writes beside Kafka: what stands in them at the end is evidence, like a log."""
