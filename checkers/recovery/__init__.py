"""Measure how a pipeline recovered from its faults. This uses no Spark.

Begin with `measure.py`, which also finds the times in which a group committed nothing. `liveness.py` finds the gaps
around each fault, and `lag.py` the inputs that were left at the end.
"""
