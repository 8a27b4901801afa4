"""What `--nemesis` asks for."""

from random import Random

import pytest

from fencepost import registry
from fencepost.aims import aimed, expand, key_of, require_known
from harness.errors import UsageError
from harness.pipeline import PipelineFacts, StageFacts
from harness.runner.schedule import draw
from nemeses.registry import NEMESES
from tests.unit.harness.test_schedule import GROUNDS

PIPELINE = PipelineFacts(
    "p",
    (),
    (StageFacts("s", ("in",), steps=("after-poll", "after-send", "after-commit"), held_at=("after-send",)),),
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("kill-brokr", 'no fault "kill-brokr"; did you mean "kill-broker"'),
        ("kill-worker@after-sent", 'no step "after-sent"; did you mean "after-send"'),
        ("partition@after-send", "partition cannot be aimed at a step; these can: kill-broker"),
        ("none@after-send", "none cannot be aimed"),
        ("kill-txn-coordinator@prepare", 'no step "prepare"; did you mean "prepare-abort"'),
        ("kill-broker@ongoing", 'no step "ongoing"'),
        ("crash-points@after-send", 'no fault "crash-points"'),
    ],
)
def test_what_is_no_fault_is_refused_with_what_would_be(asked: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        require_known(asked, NEMESES)


def test_a_coordinator_is_aimed_at_by_the_state_of_a_transaction() -> None:
    asked = "kill-txn-coordinator@prepare-commit"
    require_known(asked, NEMESES)
    schedule = draw([aimed(asked, NEMESES)], GROUNDS, 60, Random(1), named=True)
    assert {key_of(one.as_table(), [asked]) for one in schedule.injections} == {asked}
    assert all(one.state == "prepare-commit" and one.step is None for one in schedule.injections)
    assert "in prepare-commit" in str(schedule.injections[0])


def test_a_fault_is_aimed_at_a_step_of_one_stage() -> None:
    stage = sorted(GROUNDS.workers)[-1]
    asked = f"kill-worker@{stage}:after-send"
    require_known(asked, NEMESES)
    schedule = draw([aimed(asked, NEMESES)], GROUNDS, 60, Random(1), named=True)
    assert {str(one.target).partition("/")[0] for one in schedule.injections} == {f"worker:{stage}"}
    assert {key_of(one.as_table(), [asked]) for one in schedule.injections} == {asked}
    with pytest.raises(UsageError, match="needs a stage nowhere whose workers come to the step after-send"):
        draw([aimed("kill-worker@nowhere:after-send", NEMESES)], GROUNDS, 60, Random(1), named=True)


def test_a_sweep_is_a_kill_at_every_step_and_a_pause_between_poll_and_commit() -> None:
    assert expand(["crash-points", "none", "partition"], PIPELINE) == [
        "kill-worker@after-poll",
        "kill-worker@after-send",
        "kill-worker@after-commit",
        "pause-worker@after-poll",
        "pause-worker@after-send",
        "partition",
    ]


def test_every_workload_can_be_swept() -> None:
    for workload in registry.workloads().values():
        from harness.settings.options import Options

        for asked in expand(["crash-points"], workload.facts(Options())):
            require_known(asked, NEMESES)


def test_a_fault_that_is_aimed_strikes_at_its_step_alone() -> None:
    names = ["kill-worker@before-commit", "kill-worker@after-poll", "kill-txn-coordinator@after-offsets"]
    schedule = draw([aimed(name, NEMESES) for name in names], GROUNDS, 120, Random(3), named=True)
    assert {f"{one.fault}@{one.step}" for one in schedule.injections} == set(names)


def test_a_step_to_which_no_loop_comes_is_refused() -> None:
    with pytest.raises(
        UsageError, match="kill-worker@nowhere needs a pipeline whose workers come to the step"
    ):
        draw([aimed("kill-worker@nowhere", NEMESES)], GROUNDS, 120, Random(3), named=True)


def test_an_injection_is_for_what_had_asked_for_it() -> None:
    injection = {"fault": "kill-worker", "step": "after-send"}
    assert key_of(injection, ["kill-worker@after-send"]) == "kill-worker@after-send"
    assert key_of(injection, ["kill-worker"]) == "kill-worker"
