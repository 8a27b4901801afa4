"""Measure how a pipeline recovered from its faults. This uses no Spark.

Begin with `measure.py`. `liveness.py` finds the gaps around each fault, `stalls.py` the times in which a group
committed nothing, and `lag.py` the inputs that were left at the end.
"""
