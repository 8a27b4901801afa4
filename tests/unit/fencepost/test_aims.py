"""What `--nemesis` asks for."""

from dataclasses import replace
from random import Random

import pytest

from fencepost import registry
from fencepost.aims import aim, expand_names, requested_name, require_known_fault
from harness.common.errors import UsageError
from harness.model.pipeline import PipelineSpec, StageSpec
from harness.runner.nemesis import PlannedFault
from harness.runner.schedule import draw
from harness.settings.options import Options
from nemeses.registry import NEMESES
from tests.unit.harness.test_schedule import TARGETS

PIPELINE = PipelineSpec(
    "p",
    (),
    (
        StageSpec(
            "s", ("in",), steps=("after-poll", "after-send", "after-commit"), zombie_steps=("after-send",)
        ),
    ),
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
        require_known_fault(asked, NEMESES)


def test_a_coordinator_is_aimed_at_by_the_state_of_a_transaction() -> None:
    asked = "kill-txn-coordinator@prepare-commit"
    require_known_fault(asked, NEMESES)
    schedule = draw([aim(asked, NEMESES)], TARGETS, 60, Random(1), named=True)
    assert {requested_name(one.as_table(), [asked]) for one in schedule.planned_faults} == {asked}
    assert all(one.state == "prepare-commit" and one.step is None for one in schedule.planned_faults)
    assert "in prepare-commit" in str(schedule.planned_faults[0])


def test_a_fault_is_aimed_at_a_step_of_one_stage() -> None:
    stage = sorted(TARGETS.workers)[-1]
    asked = f"kill-worker@{stage}:after-send"
    require_known_fault(asked, NEMESES)
    schedule = draw([aim(asked, NEMESES)], TARGETS, 60, Random(1), named=True)
    assert {str(one.target).partition("/")[0] for one in schedule.planned_faults} == {f"worker:{stage}"}
    assert {requested_name(one.as_table(), [asked]) for one in schedule.planned_faults} == {asked}
    with pytest.raises(UsageError, match="needs a stage nowhere whose workers come to the step after-send"):
        draw([aim("kill-worker@nowhere:after-send", NEMESES)], TARGETS, 60, Random(1), named=True)


def test_a_sweep_is_a_kill_at_every_step_and_a_pause_between_poll_and_commit() -> None:
    assert expand_names(["crash-points", "none", "partition"], PIPELINE) == [
        "kill-worker@after-poll",
        "kill-worker@after-send",
        "kill-worker@after-commit",
        "pause-worker@after-poll",
        "pause-worker@after-send",
        "partition",
    ]


def test_every_workload_can_be_swept() -> None:
    for workload in registry.workloads().values():
        facts = workload.spec(Options())
        swept = expand_names(["crash-points"], facts)
        steps = {step for stage in facts.stages for step in stage.steps}
        assert {one for one in swept if one.startswith("kill")} == {f"kill-worker@{step}" for step in steps}
        for asked in swept:
            require_known_fault(asked, NEMESES)
            assert asked.partition("@")[2] in steps


def test_a_fault_that_is_aimed_strikes_at_its_step_alone() -> None:
    names = ["kill-worker@before-commit", "kill-worker@after-poll", "kill-txn-coordinator@after-offsets"]
    schedule = draw([aim(name, NEMESES) for name in names], TARGETS, 120, Random(3), named=True)
    assert {f"{one.fault}@{one.step}" for one in schedule.planned_faults} == set(names)


def test_a_step_to_which_no_loop_comes_is_refused() -> None:
    with pytest.raises(
        UsageError, match="kill-worker@nowhere needs a pipeline whose workers come to the step"
    ):
        draw([aim("kill-worker@nowhere", NEMESES)], TARGETS, 120, Random(3), named=True)


def test_an_injection_is_for_what_had_asked_for_it() -> None:
    injection = {"fault": "kill-worker", "step": "after-send"}
    assert requested_name(injection, ["kill-worker@after-send"]) == "kill-worker@after-send"
    assert requested_name(injection, ["kill-worker"]) == "kill-worker"


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ("kill-broker@payments:before-commit", "leader:paid/0"),
        ("kill-group-coordinator@payments:after-offsets", "group-coordinator:g2"),
        ("kill-txn-coordinator@payments:after-send", "txn-coordinator:payments-1"),
        ("kill-txn-coordinator@payments:prepare-commit", "txn-coordinator:payments-1"),
        ("cut-txn-coordinator@payments:before-commit", "txn-coordinator:payments-1"),
    ],
)
def test_a_broker_is_struck_for_the_workers_of_the_stage_that_was_asked_for(asked: str, target: str) -> None:
    require_known_fault(asked, NEMESES)
    for seed in range(5):
        schedule = draw([aim(asked, NEMESES)], TARGETS, 60, Random(seed), named=True)
        assert {str(one.target) for one in schedule.planned_faults} == {target}
        assert {requested_name(one.as_table(), [asked]) for one in schedule.planned_faults} == {asked}
        assert PlannedFault.from_table(schedule.planned_faults[0].as_table()).stage == "payments"


def test_a_broker_is_struck_for_a_stage_whose_loop_comes_to_the_step() -> None:
    steps = {"shop": ("after-offsets",), "payments": ("after-poll",)}
    few = replace(TARGETS, steps=steps)
    for seed in range(5):
        for fault, target in (("group-coordinator", "g1"), ("txn-coordinator", "shop-"), ("broker", "out/0")):
            asked = f"kill-{fault}@after-offsets"
            schedule = draw([aim(asked, NEMESES)], few, 60, Random(seed), named=True)
            assert all(one.target.name.startswith(target) for one in schedule.planned_faults)


@pytest.mark.parametrize("step", ["before-poll", "after-commit"])
def test_a_pause_where_a_worker_has_nothing_in_hand_is_refused(step: str) -> None:
    with pytest.raises(UsageError, match="needs a step at which a worker has polled inputs"):
        draw([aim(f"pause-worker@{step}", NEMESES)], TARGETS, 120, Random(3), named=True)
    schedule = draw([aim("pause-worker@after-poll", NEMESES)], TARGETS, 60, Random(3), named=True)
    assert all(one.step == "after-poll" for one in schedule.planned_faults)
