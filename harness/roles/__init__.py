"""What the processes of a run do with a Kafka client, and how they record it in journals.

`feeder` writes inputs, `observer` reads outputs during the run, `final_reader` reads every partition to its end.
`transactions` and `sending` are the journaled calls that workers share.
"""
