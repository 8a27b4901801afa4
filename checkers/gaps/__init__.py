"""The gap rules: each says when the evidence of a run has a gap, so that the run is `unknown`.

Begin with `registry.py`, which lists all rules. `rule.py` says what a rule consists of, and applies rules. The rules
are in `processes.py` (journals, final reads, observers), `progress.py` (what was processed), `logs.py` (brokers' logs),
`agreement.py` (recorded tables that do not agree) and `facts.py`, which also gathers what all rules look at.
"""
