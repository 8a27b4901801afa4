"""A gap in the evidence of a custom pipeline names the setting that would close it."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.gaps.registry import find_gaps
from checkers.gaps.rule import EvidenceCounts
from harness.model.promises import Promises

PARTITION = {"tp": 0, "topic": "out", "partition": 0, "internal": False, "logged": True, "holes": 0, "is_input": True,
             "compacted": False, "expected": 0}  # fmt: skip
STAGE = {"stage": "s", "group": None, "journaled": False, "in_topic": "out", "positions": None}
GROUPED = STAGE | {"group": "g"}


def remedies(
    partition: dict[str, Any], stage: dict[str, Any], left: int = 0, *, journaled: bool = False
) -> dict[str, str]:
    facts = EvidenceCounts(
        partitions={0: PARTITION | partition},
        stages=[stage | {"journaled": journaled}],
        left={"s": left} if left else {},
        progress={("g", 0): None},
        numbers=defaultdict(int),
    )
    run: Any = SimpleNamespace(
        journaled=journaled, blind=False, without_journals=not journaled, correlated=False, drained=True, had_log=False,
        has_log=True, refused_logs={}, promises=Promises(replicas=False), compacted={},
        incomplete=(), problems=(),
    )  # fmt: skip
    return {name: reason.remedy for name, reason in find_gaps(facts, run).reasons.items()}


@pytest.mark.parametrize(
    ("partition", "stage", "left", "name", "setting"),
    [
        ({"beyond": 2, "ru_next": 7}, STAGE, 0, "beyond the end of out/0", "idle_s"),
        ({}, STAGE, 3, "left by s", "idle_s"),
        ({}, STAGE, 3, "left by s", "[stage.progress]"),
        ({"stable_inputs": 4}, GROUPED, 0, "progress of g in out/0", "`group`"),
        ({}, STAGE, 0, "nothing committed", "workers/"),
        ({}, STAGE, 0, "no inputs", "--rate"),
    ],
)
def test_a_gap_of_a_custom_pipeline_has_the_remedy_that_closes_it(
    partition: dict[str, Any], stage: dict[str, Any], left: int, name: str, setting: str
) -> None:
    assert setting in remedies(partition, stage, left)[name]


def test_a_gap_of_a_workload_names_no_setting_of_a_file() -> None:
    assert (
        "idle_s"
        not in remedies({"beyond": 2, "ru_next": 7}, STAGE, journaled=True)["beyond the end of out/0"]
    )
