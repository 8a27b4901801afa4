"""The kinds of cluster, one file each, and their table.

`kind.py` says what a kind states of itself. To add one: write its file beside `local.py`, and a line in `registry.py`.
Everything else asks the kind for what it can do and takes, never for its name. Begin with `registry.CLUSTERS`.
"""
