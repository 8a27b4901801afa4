"""The names of `--nemesis`: faults, steps and transaction states."""

from dataclasses import replace
from random import Random

import pytest

from fencepost import registry
from fencepost.registry import aim, require_known_fault
from harness.common.errors import UsageError
from harness.model.fault_names import expand_names, requested_name
from harness.model.pipeline import PipelineSpec, StageSpec
from harness.runner.nemesis import PlannedFault
from harness.settings.options import Options
from nemeses.registry import NEMESES
from tests.support.drawn_schedule import draw
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
    ("name", "message"),
    [
        ("kill-brokr", 'no fault "kill-brokr"; did you mean "kill-broker"'),
        ("kill-worker@after-sent", 'no step "after-sent"; did you mean "after-send"'),
        ("partition@after-send", "partition cannot be aimed at a step; these can: kill-broker"),
        ("none@after-send", "none cannot be aimed"),
        ("kill-txn-coordinator@prepare", 'no step "prepare"; did you mean "prepare-abort"'),
        ("kill-broker@ongoing", 'no step or role "ongoing"'),
        ("kill-worker@leader", 'no step "leader"'),
        ("crash-points@after-send", 'no fault "crash-points"'),
    ],
)
def test_an_unknown_fault_or_step_is_refused_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        require_known_fault(name, NEMESES)


def test_a_coordinator_fault_can_be_aimed_at_a_transaction_state() -> None:
    name = "kill-txn-coordinator@prepare-commit"
    require_known_fault(name, NEMESES)
    schedule = draw([aim(name, NEMESES)], TARGETS, 60, Random(1), chosen_by_user=True)
    assert {requested_name(planned.as_table(), [name]) for planned in schedule.planned_faults} == {name}
    assert all(
        planned.state == "prepare-commit" and planned.step is None for planned in schedule.planned_faults
    )
    assert "in prepare-commit" in str(schedule.planned_faults[0])


def test_a_fault_can_be_aimed_at_a_step_of_one_stage() -> None:
    stage = sorted(TARGETS.workers)[-1]
    name = f"kill-worker@{stage}:after-send"
    require_known_fault(name, NEMESES)
    schedule = draw([aim(name, NEMESES)], TARGETS, 60, Random(1), chosen_by_user=True)
    assert {str(planned.target).partition("/")[0] for planned in schedule.planned_faults} == {
        f"worker:{stage}"
    }
    assert {requested_name(planned.as_table(), [name]) for planned in schedule.planned_faults} == {name}
    with pytest.raises(UsageError, match="needs a stage nowhere whose workers come to the step after-send"):
        draw([aim("kill-worker@nowhere:after-send", NEMESES)], TARGETS, 60, Random(1), chosen_by_user=True)


def test_crash_points_kill_at_every_step_and_pause_between_poll_and_commit() -> None:
    assert expand_names(["crash-points", "none", "partition"], PIPELINE) == [
        "kill-worker@after-poll",
        "kill-worker@after-send",
        "kill-worker@after-commit",
        "pause-worker@after-poll",
        "pause-worker@after-send",
        "partition",
    ]


def test_crash_points_of_every_workload_are_known_faults() -> None:
    for workload in registry.workloads().values():
        spec = workload.spec(Options())
        faults = expand_names(["crash-points"], spec)
        steps = {step for stage in spec.stages for step in stage.steps}
        assert {planned for planned in faults if planned.startswith("kill")} == {
            f"kill-worker@{step}" for step in steps
        }
        for name in faults:
            require_known_fault(name, NEMESES)
            assert name.partition("@")[2] in steps


def test_an_aimed_fault_is_planned_only_at_its_step() -> None:
    names = ["kill-worker@before-commit", "kill-worker@after-poll", "kill-txn-coordinator@after-offsets"]
    schedule = draw([aim(name, NEMESES) for name in names], TARGETS, 120, Random(3), chosen_by_user=True)
    assert {f"{planned.fault}@{planned.step}" for planned in schedule.planned_faults} == set(names)


def test_a_step_that_no_loop_has_is_refused() -> None:
    with pytest.raises(
        UsageError, match="kill-worker@nowhere needs a pipeline whose workers come to the step"
    ):
        draw([aim("kill-worker@nowhere", NEMESES)], TARGETS, 120, Random(3), chosen_by_user=True)


def test_a_planned_fault_belongs_to_the_most_specific_requested_name() -> None:
    planned_fault = {"fault": "kill-worker", "step": "after-send"}
    assert requested_name(planned_fault, ["kill-worker@after-send"]) == "kill-worker@after-send"
    assert requested_name(planned_fault, ["kill-worker"]) == "kill-worker"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("kill-broker@payments:before-commit", "leader:paid/0"),
        ("kill-group-coordinator@payments:after-offsets", "group-coordinator:g2"),
        ("kill-txn-coordinator@payments:after-send", "txn-coordinator:payments-1"),
        ("kill-txn-coordinator@payments:prepare-commit", "txn-coordinator:payments-1"),
        ("cut-txn-coordinator@payments:before-commit", "txn-coordinator:payments-1"),
    ],
)
def test_a_broker_fault_at_a_step_targets_the_requested_stage(name: str, target: str) -> None:
    require_known_fault(name, NEMESES)
    for seed in range(5):
        schedule = draw([aim(name, NEMESES)], TARGETS, 60, Random(seed), chosen_by_user=True)
        assert {str(planned.target) for planned in schedule.planned_faults} == {target}
        assert {requested_name(planned.as_table(), [name]) for planned in schedule.planned_faults} == {name}
        assert PlannedFault.from_table(schedule.planned_faults[0].as_table()).stage == "payments"


def test_a_broker_fault_targets_a_stage_whose_loop_has_the_step() -> None:
    steps = {"shop": ("after-offsets",), "payments": ("after-poll",)}
    limited = replace(TARGETS, steps=steps)
    for seed in range(5):
        for fault, target in (("group-coordinator", "g1"), ("txn-coordinator", "shop-"), ("broker", "out/0")):
            name = f"kill-{fault}@after-offsets"
            schedule = draw([aim(name, NEMESES)], limited, 60, Random(seed), chosen_by_user=True)
            assert all(planned.target.name.startswith(target) for planned in schedule.planned_faults)


@pytest.mark.parametrize("step", ["before-poll", "after-commit"])
def test_a_pause_at_a_step_without_uncommitted_inputs_is_refused(step: str) -> None:
    with pytest.raises(UsageError, match="needs a step at which a worker has polled inputs"):
        draw([aim(f"pause-worker@{step}", NEMESES)], TARGETS, 120, Random(3), chosen_by_user=True)
    schedule = draw([aim("pause-worker@after-poll", NEMESES)], TARGETS, 60, Random(3), chosen_by_user=True)
    assert all(planned.step == "after-poll" for planned in schedule.planned_faults)
