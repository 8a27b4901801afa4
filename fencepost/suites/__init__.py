"""Suites: a matrix of runs, started side by side, checked together, and reported in one folder.

`plan.py` reads the suite file (`matrix.py` expands its tables, `failures.py` holds the failures that it lists).
`run.py` starts the runs and checks them; `outcome.py` decides the state of a cell. `record.py` is the folder,
`previous.py` compares with earlier suites, `forecast.py` estimates durations. Begin with `run.py`.
"""
