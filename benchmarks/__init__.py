"""Benchmarks. They print measurements, mostly as ratios within one run, and assert nothing."""
