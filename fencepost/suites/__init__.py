"""Suites: a matrix of runs, started side by side, checked together, and reported in one folder.

`plan.py` reads the suite file, and `cells.py` expands its tables and carries out one cell. `run.py` starts the runs,
estimates how long they take, and checks them. `outcome.py` has the failures that the file lists, and decides the state
of a cell. `record.py` is the folder, and compares with earlier suites. Begin with `run.py`.
"""
