"""A server process that several runs and checks share. It has one Spark for verdicts and one Kafka cluster for runs.

Start with `process` (how the server starts and ends), then read `client` (the protocol) and `fencepost.shared_server`.
`spark` and `cluster` are the clients of these two. `fencepost.runs.run_spark` chooses the Spark of one run.
"""
