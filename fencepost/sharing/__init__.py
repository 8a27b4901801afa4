"""One server process that several runs and checks share: one Spark for verdicts, and one Kafka cluster for runs.

Begin with `process` (who starts the server and when it ends), then `client` (requests and answers) and `server`.
`spark` and `cluster` are what a client sees of the two. `run_spark` chooses the Spark of one run.
"""
