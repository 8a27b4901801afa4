"""The counter-example of a finding: who did what, when, and what should have stopped it.

`evidence` reads the tables once. `attempts` are the transactions that touched the records of a finding. `diagram` is
the sequence of messages between processes, coordinators and partitions. `cause` names the fault or mistake, and `story`
puts the findings of one cause together.
"""
