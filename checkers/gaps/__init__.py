"""What makes a run `unknown`: each gap in its evidence is a rule in a table.

Begin with `registry.py`, which lists all rules. `rule.py` says what a rule consists of, and applies rules. The rules
are in `processes.py` (journals, final reads, observers), `progress.py` (what was processed), `logs.py` (brokers' logs),
`agreement.py` (recorded tables that do not agree) and `facts.py`, which also gathers what all rules look at.
"""
