"""Processes of a run that use a Kafka client and record what they do in journals.

`feeder` writes inputs, `observer` reads outputs during the run, `final_reader` reads every partition to its end.
`transactions` has the calls of workers, which they record in journals. `control` is the process's end of
the control line to the run.
"""
