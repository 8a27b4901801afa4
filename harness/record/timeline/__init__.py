"""What happened in a run, on one time axis: one model for all kinds of runs, with two loaders.

`load` has the model and the loaders: from what the processes of a workload recorded, and from what the brokers stored.
`partition_offsets` reads the ends and markers of partitions. Charts, liveness and exports read only the model.
"""
