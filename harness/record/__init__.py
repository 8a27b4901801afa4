"""Journals of the processes of a run, and the tables that are made from them.

Begin with `schema` (every table and column) and `events` (every line of a journal). `journal` writes and reads
journals, `parts` and `parquet` write files of rows, and `tables` makes the tables of `history/`. `table_reader` reads
them, and `timeline` puts them on one time axis.
"""
