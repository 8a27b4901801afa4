"""Whether the evidence is whole of stages that keep no journals: what they left, and what nobody says of them."""

from checkers.judging.gathered import Facts, Incomplete
from checkers.stored.sources import StoredRun
from harness.telling.words import several


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
