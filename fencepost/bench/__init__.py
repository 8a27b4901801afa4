"""`fencepost bench`: what exactly-once costs, measured on one cluster in one run."""
