"""The parts of a workload: stages, outputs, the expectation of its inputs, and the delivery policy."""
