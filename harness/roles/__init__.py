"""Processes of a run that use a Kafka client and record what they do in journals.

`feeder` writes inputs, `observer` reads outputs during the run, `final_reader` reads every partition to its end.
`transactions` and `sending` are the journaled calls that workers share. `control` is the line of a process to the run.
"""
