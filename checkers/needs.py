"""The needs and premises of checks, and the reason that a verdict gives if one of them is missing."""

from harness.model.vocabulary import Premise
from harness.results.reasons import (
    BY_ACLS,
    NO_AGGREGATE,
    NO_INPUTS,
    NO_JOURNALS,
    NO_ORDER,
    ON_KAFKA,
    Reason,
    ReasonCode,
)

NEEDS = {
    "journals": NO_JOURNALS,
    "joined": Reason(
        ReasonCode.NO_EXPECTATION,
        "the expected outputs of the inputs are not known, so no output can be joined to its input",
        remedy="add [expect] to pipeline.toml",
    ),
    "log": Reason(ReasonCode.NO_LOGS, "this run has no broker logs"),
    "offsets": Reason(ReasonCode.NO_OFFSETS_LOG, "this run has no log of __consumer_offsets"),
    "offsets-within": Reason(
        ReasonCode.NO_OFFSETS_WITHIN,
        "no offset of this run was committed in a transaction",
    ),
    "group-offsets": Reason(
        ReasonCode.NO_GROUP_OFFSETS,
        "a stage keeps its offsets outside Kafka, where they cannot be read",
    ),
    "transactions": Reason(
        ReasonCode.NO_TRANSACTIONS_LOG, "this run has no whole log of __transaction_state"
    ),
    "replicas": Reason(ReasonCode.ONE_REPLICA, "this run has the log of only one replica of each partition"),
    "healed": Reason(ReasonCode.NO_LAST_HEAL, "it is not known when the last fault of the run was healed"),
    "expected": Reason(
        ReasonCode.NO_EXPECTATION,
        "the expected outputs of the workload are not known",
        remedy="run a workload that states its expected outputs",
    ),
    "inputs": NO_INPUTS,
    "order": NO_ORDER,
    "aggregate": NO_AGGREGATE,
}
"""By need: the reason in `not_checked` if a run does not meet it."""
ONLY_LAST_RECORDS = Reason(
    ReasonCode.FINAL_ALONE,
    "only the last record of each key is checked (`final` in pipeline.toml): see aggregate-mismatch",
)
"""Replaces the reasons for unjoined outputs if a custom pipeline has only `final` outputs."""
TRANSACTION_NEEDS = frozenset({"transactions", "offsets-within"})
"""The needs that only a pipeline with transactions can meet."""


def refused_log(topic: str, words: str) -> Reason:
    """Return the reason for a log of an internal topic that the cluster did not give. `words`: what it answered."""
    if not words.startswith(BY_ACLS):  # another user would get the same answer
        return Reason(ReasonCode.LOG_REFUSED, words, topic, ON_KAFKA)
    remedy = (
        f"allow this user Read and Describe on the topic {topic} "
        f"(kafka-acls.sh --add --allow-principal User:NAME --operation Read --operation Describe --topic {topic})"
    )
    return Reason(ReasonCode.LOG_REFUSED, f"{words}: {remedy}", topic, remedy)


PREMISES = {
    Premise.LEADER_ALWAYS: Reason(
        ReasonCode.PREMISE_BROKEN, "the faults of this run may leave a partition without a leader for long"
    ),
    Premise.NO_LATE_BYTES: Reason(
        ReasonCode.PREMISE_BROKEN,
        "the faults of this run may deliver requests after their connection has ended",
    ),
    Premise.ONE_CLOCK: Reason(
        ReasonCode.PREMISE_BROKEN, "the clocks of brokers and clients may differ in this run"
    ),
    Premise.WHOLE_LOGS: Reason(
        ReasonCode.PREMISE_BROKEN, "the faults of this run may destroy records that brokers had written"
    ),
}
"""By premise: the reason in `not_checked` if the faults of a run may break it."""
