"""Stages whose inputs need not lead to anything have fewer needs."""

from pathlib import Path

from checkers.gaps.registry import find_gaps
from checkers.gaps.rule import EvidenceCounts
from checkers.needs import missing_needs
from checkers.registry import CHECKERS
from checkers.stored.sources import StoredRun
from harness.model.promises import Promises
from harness.results.reasons import NO_INPUTS

FREE = Promises(journaled=("t",), free_stages=("t",))
BOUND = Promises(journaled=("t",))


def facts(**numbers: int) -> EvidenceCounts:
    found = EvidenceCounts(stages=[{"stage": "t", "group": None, "in_topic": "k"}])
    found.partitions[0] = {
        "topic": "k",
        "partition": 0,
        "internal": False,
        "inputs": 3,
        "consumed": 3,
        "read": 3,
        "logged": False,
        "compacted": False,
        "followers": 0,
    }
    found.numbers |= {"effective_of_stages": 1, **numbers}
    return found


def reasons(promises: Promises, found: EvidenceCounts) -> set[str]:
    return set(find_gaps(found, StoredRun(1, Path(), promises=promises)).reasons)


def test_a_free_stage_needs_no_expectation_and_no_group() -> None:
    missing = missing_needs(facts(), free_stages=("t",))
    assert missing["inputs"] == NO_INPUTS and "group-offsets" not in missing
    assert "expected" not in reasons(FREE, facts(assignments=1))
    assert "assignments" in reasons(FREE, facts())


def test_any_other_stage_needs_both() -> None:
    missing = missing_needs(facts())
    assert "inputs" not in missing and "group-offsets" in missing
    assert "expected" in reasons(BOUND, facts(assignments=1))


def test_every_check_of_an_inputs_outputs_needs_an_expectation() -> None:
    asking = [one.module for one in CHECKERS if one.family == "inputs" and "inputs" not in one.needs]
    assert asking == ["aggregate_mismatch"], "what the workload sums up is a need of its own"
    assert not NO_INPUTS.code.applicable
