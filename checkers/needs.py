"""The needs and premises of checks, which of them a run lacks, and the reason that a verdict gives then.

A check whose need or premise is missing is left out, and the run may be valid. `checkers.gaps` has what makes a run
unknown. This module does not import PySpark.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from checkers.checker import NEEDS, ONLY_LAST_RECORDS, TRANSACTION_NEEDS, refused_log
from checkers.gaps.progress import BY_MARKERS, NOT_IDENTIFIED
from checkers.gaps.rule import EvidenceCounts
from harness.common.wording import join_words
from harness.model.promises import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.model.vocabulary import OffsetTracking
from harness.results.reasons import (
    NO_OFFSETS_WITHIN,
    NO_TRANSACTIONS,
    Reason,
    ReasonCode,
)

if TYPE_CHECKING:
    from checkers.stored.sources import StoredRun

BY_OFFSETS = "offset-output-mismatch by inputs"
"""The name in `not_checked` of the clause of offset-output-mismatch that compares the inputs of outputs with offsets.
"""
NOT_COMPARED = Reason(
    ReasonCode.OFFSETS_ELSEWHERE,
    "the stages keep their offsets elsewhere, forward records to themselves, or write no output that is joined to one "
    "input, so that no output was compared with the offsets of its transaction",
    BY_OFFSETS,
)
CONTENTS = "contents of topics that the file does not name"
"""The name in `not_checked` of topics that the program uses but `pipeline.toml` does not name. Their content is not
checked.
"""


def missing_needs(
    facts: EvidenceCounts,
    *,
    healed: bool = True,
    transactions: bool = True,
    offsets_within: bool = True,
    free_stages: Collection[str] = (),
    refused_logs: Mapping[str, str] | None = None,
) -> dict[str, Reason]:
    """Return the keys of `NEEDS` that this run does not have, each with its reason.

    Args:
        healed: it is known when the last fault was healed
        transactions: the stages write in transactions
        offsets_within: the stages commit their groups' offsets in these transactions
        free_stages: stages whose inputs need not lead to anything
        refused_logs: by internal topic, what the cluster answered when it did not give the log
    """
    stages_with_outputs = [stage for stage in facts.stages if stage["stage"] not in free_stages]
    without_journals = [stage for stage in facts.stages if stage.get("journaled") is False]
    has = {
        "journals": not without_journals,
        "joined": not without_journals or bool(facts.numbers["expected"]),
        "inputs": bool(stages_with_outputs) or not facts.stages,
        "log": any(facts.logs(None)),
        "offsets": any(facts.logs(OFFSETS_TOPIC)),
        "offsets-within": bool(facts.numbers["within"]),
        "transactions": bool(facts.logs(TRANSACTIONS_TOPIC)) and all(facts.logs(TRANSACTIONS_TOPIC)),
        "replicas": any(row["followers"] for row in facts.partitions.values()),
        "group-offsets": all(
            (stage.get("group") is not None and stage not in without_journals)
            or stage.get("positions") == OffsetTracking.EACH.value
            or (stage in without_journals and (stage.get("group") is None or any(facts.logs(OFFSETS_TOPIC))))
            for stage in stages_with_outputs
        ),
        "healed": healed,
        "expected": bool(facts.numbers["expected"]),
        "order": any(stage.get("ordered") for stage in facts.stages),
        "aggregate": bool(facts.numbers["sums"]),
    }
    lacking = {need: NEEDS[need] for need, is_met in has.items() if not is_met}
    for need, topic in (("offsets", OFFSETS_TOPIC), ("transactions", TRANSACTIONS_TOPIC)):
        if need in lacking and (answer := (refused_logs or {}).get(topic)):
            lacking[need] = refused_log(topic, answer)
            if need == "offsets" and "offsets-within" in lacking:
                # Without the log it is not known how offsets were committed.
                lacking["offsets-within"] = lacking[need]
    if not offsets_within:
        lacking |= dict.fromkeys(lacking.keys() & {"offsets-within"}, NO_OFFSETS_WITHIN)
    if without_journals and has["aggregate"]:
        lacking |= dict.fromkeys(lacking.keys() & {"joined", "expected"}, ONLY_LAST_RECORDS)
    if not transactions:
        lacking |= dict.fromkeys(lacking.keys() & TRANSACTION_NEEDS, NO_TRANSACTIONS)
    return lacking


def parts_not_checked(
    facts: EvidenceCounts, run: "StoredRun", not_checked: Collection[str]
) -> dict[str, Reason]:
    """Return the checks that were made only in part, with reasons: transactions without journals, and topics without
    description.
    """
    numbers = facts.numbers
    reasons: dict[str, Reason] = {}
    if run.journaled:
        return reasons
    topics = {row["topic"] for row in facts.partitions.values() if not row["internal"]}
    if run.without_journals and run.topics and (undescribed := sorted(topics - run.topics)):
        words = (
            f"the pipeline's file does not name {join_words(undescribed)}: the content of the records there was not "
            "checked"
        )
        reasons[CONTENTS] = Reason(ReasonCode.TOPICS_NOT_NAMED, words, CONTENTS)
    only_last_records = numbers["sums"] and not numbers["expected"]  # then each offset is checked by itself
    compared = numbers["spans_compared"] or only_last_records or not numbers["spans_committed"]
    if not compared and "offset-output-mismatch" not in not_checked:
        reasons[BY_OFFSETS] = NOT_COMPARED
    if lost := numbers["spans_ended"] - numbers["spans_whole"]:
        words = NOT_IDENTIFIED.format(lost=lost, ended=numbers["spans_ended"])
        reasons[BY_MARKERS] = Reason(ReasonCode.TRANSACTIONS_NOT_IDENTIFIED, words, BY_MARKERS)
    return reasons
