"""External histories: read, validate and check the files and folders that `fencepost check` gets.

Begin with `check.check_files`. `lines` says what a line means, and `harness.record.history_form` has the tables.
Lines to tables: `files`, `blocks`, `lines` (`edn`, `names`), `read_files`. Folders: `read_folders`.
The kernel, in numpy: `by_key` (`records`) makes `packs` of each key, and `graph` (`components`) finds cycles in them.
`tables` calls the kernel in tasks, and makes the tables of `checkers.external_tables`, which checkers see. Tasks are
those of Spark, or processes of this machine (`table`, `processes`).
"""
