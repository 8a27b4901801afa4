"""Workloads: the pipelines under test that Fencepost brings, one file each. A file declares the stages of a pipeline
and its guarantee.
"""
