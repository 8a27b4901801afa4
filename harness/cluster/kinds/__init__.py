"""The cluster kinds, one file each, and their table `registry.CLUSTERS`.

`kind.py` defines the properties of a kind. To add a kind, write a file like `local.py` and add a line to
`registry.py`. Other code asks a kind for its abilities and options, never for its name.
"""
