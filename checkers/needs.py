"""What a check may need of a run, and what it may rest on; and what is said where that is not so."""

from harness.history import Premise
from harness.reasons import NO_AGGREGATE, NO_INPUTS, NO_JOURNALS, NO_ORDER, Reason

_LOCAL = "run it on a local cluster, of which all logs are read"
NEEDS = {
    "journals": NO_JOURNALS,
    "joined": Reason(
        "no-expectation",
        "nothing says what inputs must lead to, so no output is joined to any",
        remedy="add [expect] to the pipeline's file",
    ),
    "log": Reason("no-logs", "no broker logs in this history", remedy=_LOCAL),
    "offsets": Reason("no-offsets-log", "no log of __consumer_offsets in this history", remedy=_LOCAL),
    "offsets-within": Reason(
        "no-offsets-within",
        "no offset of this history was committed within a transaction",
        remedy="run a pipeline that commits its offsets in its transactions (`sendOffsetsToTransaction`)",
    ),
    "group-offsets": Reason(
        "no-group-offsets",
        "a stage keeps its offsets in a place of its own, where nobody reads them",
        remedy="run a pipeline that commits the offsets of its group to Kafka",
    ),
    "transactions": Reason(
        "no-transactions-log", "no whole log of __transaction_state in this history", remedy=_LOCAL
    ),
    "replicas": Reason("one-replica", "the log of one replica of each partition alone", remedy=_LOCAL),
    "healed": Reason("no-last-heal", "the run does not say when its last fault was healed"),
    "expected": Reason(
        "no-expectation",
        "the workload does not say what its inputs must lead to",
        remedy="run a workload that says so",
    ),
    "inputs": NO_INPUTS,
    "order": NO_ORDER,
    "aggregate": NO_AGGREGATE,
}
"""What a check may need, and the reason that stands in `not_checked` where it is missing."""
FINAL_ALONE = Reason(
    "final-alone",
    "only the last record of each key is judged (`final` in the pipeline's file): see aggregate-mismatch",
)
"""In place of what else is said of a pipeline without outputs that are joined to their inputs."""
OF_TRANSACTIONS = frozenset({"transactions", "offsets-within"})
"""The needs that only a workload with transactions can meet."""


def refused_log(topic: str, words: str) -> Reason:
    """An internal topic's log that the cluster did not give."""
    remedy = (
        f"allow this user Read and Describe on the topic {topic} "
        f"(kafka-acls.sh --add --allow-principal User:NAME --operation Read --operation Describe --topic {topic})"
    )
    return Reason("log-refused", f"{words}: {remedy}", topic, remedy)


_WITHOUT = "judge it by a run without the faults that break this"
PREMISES = {
    Premise.LEADER_ALWAYS: Reason(
        "premise-broken", "the run's faults may leave a partition without a leader for long", remedy=_WITHOUT
    ),
    Premise.NO_LATE_BYTES: Reason(
        "premise-broken",
        "the run's faults may deliver requests after their connection has ended",
        remedy=_WITHOUT,
    ),
    Premise.ONE_CLOCK: Reason(
        "premise-broken", "the clocks of brokers and clients need not agree in this run", remedy=_WITHOUT
    ),
    Premise.WHOLE_LOGS: Reason(
        "premise-broken", "the run's faults may destroy what brokers had written", remedy=_WITHOUT
    ),
}
"""What a check may rest on, and the reason that stands in `not_checked` where the run breaks it."""
