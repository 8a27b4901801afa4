"""Whether the evidence is whole of stages that keep no journals: what they left, and what nobody says of them."""

from collections.abc import Collection, Mapping

from checkers.judging.gathered import Facts, Incomplete
from checkers.stored.sources import StoredRun
from harness.reasons import Reason
from harness.telling.words import several

BY_OFFSETS = "offset-output-mismatch by inputs"
"""The clause of offset-output-mismatch that holds inputs of outputs against offsets, as `not_checked` names it."""
NOT_COMPARED = Reason(
    "offsets-elsewhere",
    "the stages keep their offsets elsewhere, or hand records on to themselves, so that no output was held against the "
    "offsets of its transaction",
    BY_OFFSETS,
)
BY_MARKERS = "transactions by their markers"
"""What of a pipeline without journals could not be told apart, as `not_checked` names it."""


def without_journals(facts: Facts, run: StoredRun, found: Incomplete) -> None:
    """Note what makes such a run unknown."""
    for stage, inputs in sorted(facts.left.items()):
        what = several(inputs, "input")
        words = f"{what} of stage {stage} led to nothing, and nobody knows whether it has gone past"
        found.add(f"left by {stage}", words)
    if run.joined and facts.due:
        bound = {stage["stage"] for stage in facts.stages if stage.get("journaled") is False}
        for stage in sorted(bound - facts.due):
            words = f"nothing says what the inputs of stage {stage} must lead to"
            found.add(f"expected of {stage}", words, "expected")
    if run.joined and facts.total("inputs") and not facts.numbers["expected"]:
        found.add("expected", "the table expected is empty, though inputs were read", "expected")


def not_told_apart(numbers: Mapping[str, int], not_checked: Collection[str]) -> dict[str, Reason]:
    """What could not be checked of transactions of which no journal tells."""
    found = {}
    compared = numbers["spans_compared"] or not numbers["spans_committed"]
    if not compared and "offset-output-mismatch" not in not_checked:
        found[BY_OFFSETS] = NOT_COMPARED
    if lost := numbers["spans_ended"] - numbers["spans_whole"]:
        words = f"of {lost} of {numbers['spans_ended']} transactions nobody knows which markers are theirs"
        found[BY_MARKERS] = Reason("transactions-not-told-apart", words, BY_MARKERS)
    return found
