"""The story of a run: what happened when, who did it, and what shows it. Begin with `run.Story` and `model`.

`by_journals` and `by_logs` are the two loaders; `scopes` selects a record, an operation, an id or a fault.
"""
