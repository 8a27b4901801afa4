"""The base of Fencepost: clusters, clients, network, processes, evidence, results, settings and the runner.

`runner` performs a run on a `cluster`. `processes` and `roles` are what it starts, `protocol` and `network` what faults
act on. `record` and `witness` make the tables of evidence, and `results` is what a check says about them. `model` has
the words and contracts that all of them share.
"""
