"""Check the evidence of stages without journals, and list the checks of them that could not be made."""

from collections.abc import Collection, Mapping

from checkers.checking.run_facts import EvidenceCounts, MissingEvidence
from checkers.stored.broker_log import TRANSACTIONS_TOPIC
from checkers.stored.sources import StoredRun
from harness.results.reasons import Reason, ReasonCode
from harness.results.wording import join_words, plural

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
BY_MARKERS = "transactions by their markers"
"""The name in `not_checked` of the transactions whose markers could not be identified."""


NOT_TAKEN = (
    "look for errors in its log, in workers/ of the run; if it was still working, write a longer idle_s in its "
    "[[stage]], or let [stage.progress] print what it has processed, so that the run waits for it; if it has a group, "
    "write the `group`"
)
NO_OUTPUTS = (
    "let `outputs` or `fold` in [expect] return the outputs that the inputs of this stage must lead to"
)


def check_custom_pipeline(facts: EvidenceCounts, run: StoredRun, missing: MissingEvidence) -> None:
    """Note what makes a run of a custom pipeline unknown."""
    lost = facts.numbers["spans_here"] - facts.numbers["spans_whole"]
    if lost > 0 and _whole_transaction_log(facts):
        missing.add(BY_MARKERS, _unidentified_markers(facts.numbers, lost))
    for stage, inputs in sorted(facts.left.items()):
        words = (
            f"{plural(inputs, 'input')} of stage {stage} led to no output, and it is not known whether the stage has "
            "taken them"
        )
        missing.add(f"left by {stage}", words, remedy=NOT_TAKEN)
    has_expectations = run.correlated or (run.blind and not run.without_journals)
    stages = {stage["stage"] for stage in facts.stages if stage.get("journaled") is False}
    stages -= set(run.promises.free_stages if run.promises else ())
    if has_expectations and facts.due:
        for stage in sorted(stages - facts.due):
            words = f"it is not known what the inputs of stage {stage} must lead to"
            missing.add(f"expected of {stage}", words, "expected", remedy=NO_OUTPUTS)
    if (
        has_expectations
        and stages
        and facts.total("inputs")
        and not facts.numbers["expected"]
        and not facts.numbers["sums"]
    ):
        missing.add("expected", "the table expected is empty, though inputs were read", "expected")


def _whole_transaction_log(facts: EvidenceCounts) -> bool:
    """True if all that the run wrote to the transaction log is stored."""
    rows = [row for row in facts.partitions.values() if row["topic"] == TRANSACTIONS_TOPIC]
    return bool(rows) and all(r["logged"] and not r["compacted"] for r in rows)


def _unidentified_markers(numbers: Mapping[str, int], lost: int) -> str:
    return f"the markers of {lost} of {numbers['spans_ended']} transactions could not be identified"


def parts_not_checked(
    facts: EvidenceCounts, run: StoredRun, not_checked: Collection[str]
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
        reasons[BY_MARKERS] = Reason(
            ReasonCode.TRANSACTIONS_NOT_IDENTIFIED, _unidentified_markers(numbers, lost), BY_MARKERS
        )
    return reasons
