"""What happened in a run, on one time axis: one model for all kinds of runs, with two loaders.

`by_journals` reads what the processes of a workload recorded, and `by_logs` what the brokers stored. Charts, liveness
and exports read only the model.
"""
