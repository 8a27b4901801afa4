"""Whether the evidence is whole of stages that keep no journals: what they left, and what nobody says of them."""

from collections.abc import Collection, Mapping

from checkers.checking.evidence import EvidenceCounts, MissingEvidence
from checkers.stored.producers import TRANSACTIONS_TOPIC
from checkers.stored.sources import StoredRun
from harness.results.reasons import Reason, ReasonCode
from harness.results.wording import join_words, plural

BY_OFFSETS = "offset-output-mismatch by inputs"
"""The clause of offset-output-mismatch that holds inputs of outputs against offsets, as `not_checked` names it."""
NOT_COMPARED = Reason(
    ReasonCode.OFFSETS_ELSEWHERE,
    "the stages keep their offsets elsewhere, hand records on to themselves, or write nothing that is joined to one "
    "input, so that no output was held against the offsets of its transaction",
    BY_OFFSETS,
)
CONTENTS = "contents of topics that the file does not name"
"""What is not judged of topics that a program made for itself, as `not_checked` names it."""
BY_MARKERS = "transactions by their markers"
"""What of a pipeline without journals could not be told apart, as `not_checked` names it."""


def check_custom_pipeline(facts: EvidenceCounts, run: StoredRun, found: MissingEvidence) -> None:
    """Note what makes such a run unknown."""
    lost = facts.numbers["spans_here"] - facts.numbers["spans_whole"]
    if lost > 0 and _whole_transaction_log(facts):
        found.add(BY_MARKERS, _nobody_knows(facts.numbers, lost))
    for stage, inputs in sorted(facts.left.items()):
        what = plural(inputs, "input")
        words = (
            f"{what} of stage {stage} led to no output, and it is not known whether the stage has taken them"
        )
        found.add(f"left by {stage}", words)
    says = run.correlated or (run.blind and not run.unjournaled)  # what its inputs must lead to
    bound = {stage["stage"] for stage in facts.stages if stage.get("journaled") is False}
    bound -= set(run.promises.free_stages if run.promises else ())
    if says and facts.due:
        for stage in sorted(bound - facts.due):
            words = f"nothing says what the inputs of stage {stage} must lead to"
            found.add(f"expected of {stage}", words, "expected")
    if (
        says
        and bound
        and facts.total("inputs")
        and not facts.numbers["expected"]
        and not facts.numbers["sums"]
    ):
        found.add("expected", "the table expected is empty, though inputs were read", "expected")


def _whole_transaction_log(facts: EvidenceCounts) -> bool:
    """Whether all that the run wrote to it is here."""
    rows = [row for row in facts.partitions.values() if row["topic"] == TRANSACTIONS_TOPIC]
    return bool(rows) and all(r["logged"] and not r["compacted"] for r in rows)


def _nobody_knows(numbers: Mapping[str, int], lost: int) -> str:
    return f"the markers of {lost} of {numbers['spans_ended']} transactions could not be identified"


def parts_not_checked(
    facts: EvidenceCounts, run: StoredRun, not_checked: Collection[str]
) -> dict[str, Reason]:
    """What could not be checked of transactions of which no journal tells, and of topics that programs made."""
    numbers = facts.numbers
    found: dict[str, Reason] = {}
    if run.journaled:
        return found
    topics = {row["topic"] for row in facts.partitions.values() if not row["internal"]}
    if run.unjournaled and run.topics and (own := sorted(topics - run.topics)):
        words = (
            f"the pipeline's file does not name {join_words(own)}: what the records there hold was not judged"
        )
        found[CONTENTS] = Reason(ReasonCode.TOPICS_NOT_NAMED, words, CONTENTS)
    last_alone = numbers["sums"] and not numbers["expected"]  # whose offsets are looked at one by one
    compared = numbers["spans_compared"] or last_alone or not numbers["spans_committed"]
    if not compared and "offset-output-mismatch" not in not_checked:
        found[BY_OFFSETS] = NOT_COMPARED
    if lost := numbers["spans_ended"] - numbers["spans_whole"]:
        found[BY_MARKERS] = Reason(
            ReasonCode.TRANSACTIONS_NOT_TOLD_APART, _nobody_knows(numbers, lost), BY_MARKERS
        )
    return found
