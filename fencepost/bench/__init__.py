"""`fencepost bench`: measure what exactly-once costs, on one cluster in one run."""
