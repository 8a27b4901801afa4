"""The brokers' witness: what every replica stored, read from its segment files.

`capture.capture` reads all of it into the four tables of `harness.record.schema.LOG`; `segments`
reads a partition's folder, `records` what is inside a batch, `transaction_log` and `offsets_log`
the records of the two internal topics.
"""
