"""The loop of every workload's workers: consume inputs, transform them, deliver the outputs."""
