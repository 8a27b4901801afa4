"""Performs one run: its processes, its schedule of faults, and its final state."""
