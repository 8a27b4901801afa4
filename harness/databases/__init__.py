"""Databases that a pipeline uses in addition to Kafka. Their content after the run is evidence, like the broker log.

Begin with `interface`.
"""
