"""General helpers that do not depend on Kafka: errors, bounded waiting, names, secrets, TOML.

Begin with `errors` (the tree of exceptions and the exit statuses) and `waiting` (the only place that sleeps).
"""
