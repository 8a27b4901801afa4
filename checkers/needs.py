"""What a check may need of a run, and what it may rest on; and what is said where that is not so."""

from harness.model.vocabulary import Premise
from harness.results.reasons import NO_AGGREGATE, NO_INPUTS, NO_JOURNALS, NO_ORDER, Reason, ReasonCode

NEEDS = {
    "journals": NO_JOURNALS,
    "joined": Reason(
        ReasonCode.NO_EXPECTATION,
        "nothing says what inputs must lead to, so no output is joined to any",
        remedy="add [expect] to the pipeline's file",
    ),
    "log": Reason(ReasonCode.NO_LOGS, "no broker logs in this history"),
    "offsets": Reason(ReasonCode.NO_OFFSETS_LOG, "no log of __consumer_offsets in this history"),
    "offsets-within": Reason(
        ReasonCode.NO_OFFSETS_WITHIN,
        "no offset of this history was committed within a transaction",
    ),
    "group-offsets": Reason(
        ReasonCode.NO_GROUP_OFFSETS,
        "a stage keeps its offsets in a place of its own, where nobody reads them",
    ),
    "transactions": Reason(
        ReasonCode.NO_TRANSACTIONS_LOG, "no whole log of __transaction_state in this history"
    ),
    "replicas": Reason(ReasonCode.ONE_REPLICA, "the log of one replica of each partition alone"),
    "healed": Reason(ReasonCode.NO_LAST_HEAL, "the run does not say when its last fault was healed"),
    "expected": Reason(
        ReasonCode.NO_EXPECTATION,
        "the workload does not say what its inputs must lead to",
        remedy="run a workload that says so",
    ),
    "inputs": NO_INPUTS,
    "order": NO_ORDER,
    "aggregate": NO_AGGREGATE,
}
"""What a check may need, and the reason that stands in `not_checked` where it is missing."""
ONLY_LAST_RECORDS = Reason(
    ReasonCode.FINAL_ALONE,
    "only the last record of each key is judged (`final` in the pipeline's file): see aggregate-mismatch",
)
"""In place of what else is said of a pipeline without outputs that are joined to their inputs."""
TRANSACTION_NEEDS = frozenset({"transactions", "offsets-within"})
"""The needs that only a workload with transactions can meet."""


def refused_log(topic: str, words: str) -> Reason:
    """An internal topic's log that the cluster did not give."""
    remedy = (
        f"allow this user Read and Describe on the topic {topic} "
        f"(kafka-acls.sh --add --allow-principal User:NAME --operation Read --operation Describe --topic {topic})"
    )
    return Reason(ReasonCode.LOG_REFUSED, f"{words}: {remedy}", topic, remedy)


PREMISES = {
    Premise.LEADER_ALWAYS: Reason(
        ReasonCode.PREMISE_BROKEN, "the run's faults may leave a partition without a leader for long"
    ),
    Premise.NO_LATE_BYTES: Reason(
        ReasonCode.PREMISE_BROKEN,
        "the run's faults may deliver requests after their connection has ended",
    ),
    Premise.ONE_CLOCK: Reason(
        ReasonCode.PREMISE_BROKEN, "the clocks of brokers and clients need not agree in this run"
    ),
    Premise.WHOLE_LOGS: Reason(
        ReasonCode.PREMISE_BROKEN, "the run's faults may destroy what brokers had written"
    ),
}
"""What a check may rest on, and the reason that stands in `not_checked` where the run breaks it."""
