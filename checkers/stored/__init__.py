"""Make the shared tables of stored runs: journals, broker logs and final reads, joined once for all checkers.

Begin with `tables.py`, which lists the tables. `sources.py` reads the recorded tables, and `prepared_sources.py`
changes them. `small_tables.py` and `partition_tables.py` make the tables whose size does not grow with the run, from
the counts of `tally.py`. Each other file makes large tables.
"""
