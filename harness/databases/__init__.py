"""Databases that a pipeline uses beside Kafka. Their content after the run is evidence, like the broker log.

Begin with `interface`.
"""
