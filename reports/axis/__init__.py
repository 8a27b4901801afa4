"""The time axis of a report: panes of curves and lanes of bars, as data that a browser draws.

Everything is computed from the tables and logs of a run folder. The size of the result does not grow with the run.
"""
