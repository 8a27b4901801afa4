"""Workloads that are wrong on purpose."""
