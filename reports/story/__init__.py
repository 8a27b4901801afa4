"""The story of a run: what happened when, who did it, and what shows it. Begin with `run.Story`, and with `model`.

`by_journals` and `by_logs` are the two loaders of points, and `scopes` selects those of a record, operation, id or
fault. `roles` says who was what: processes, members, leaders, producers; `progress` how inputs and groups went on.
`counterexamples` explains findings: `subjects` has their attempts, `cause` why, `diagram` the messages. `samples`
chooses rows of large tables for the export. A drawing is `reports/pictures/NAME`, from the story.
"""
