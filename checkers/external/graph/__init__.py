"""The dependency graph of a history: its edges, the intervals that contain its cycles, and the cycles."""
