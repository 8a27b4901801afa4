"""Workloads: pipelines under test that are part of Fencepost, one file each.

A file declares the stages and the guarantee of a pipeline.
"""
