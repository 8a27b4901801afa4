"""`python -m benchmarks.exactly_once`: measure what exactly-once costs, on one cluster in one run."""
