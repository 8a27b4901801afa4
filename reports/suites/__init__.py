"""What is told of a suite of runs, beside its page: for the machines that read tests, and for a CI's page."""
