"""The dependency graph of a history: its edges, the intervals that hold its cycles, and the cycles."""
