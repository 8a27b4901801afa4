"""Workloads: pipelines under test that are part of Fencepost, one file each; and custom pipelines of users.

A file declares the stages and the guarantee of a pipeline. Begin with `echo`, then `model/workload`. The loop of the
workers is in `loop`, the planted bugs are in `defects`, and `custom` has what a user describes in `pipeline.toml`.
"""
