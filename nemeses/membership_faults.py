"""Faults that let instances of a custom pipeline leave their group cleanly and join it: a row of `NEMESES` each.

The instances share the partitions of their group anew, twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from harness.common.errors import WaitTimeout
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    RoleChoice,
    Target,
    uses_workers,
)
from nemeses.effects.instance_member import InstanceMember, any_instance, any_stage, in_groups
from nemeses.effects.membership import JOINED, join, leave, members

DOWN = "down"


@contextmanager
def restart_instance(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Restart the instance.

    The fault acted if the instance exited, the group went on without it, and a new instance joined.
    """
    member = InstanceMember.find(context, planned)
    effect, process = member.effect, member.process

    def replace(before: frozenset[str]) -> None:
        assert process.stage is not None and process.worker is not None
        join(context, process.stage, process.worker, effect, before)

    leave(context, process, effect, replace)
    effect.acted = effect.acted and not effect.unmet_goals
    member.note_unready()
    yield effect


@contextmanager
def scale_instances(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Start or stop an instance, and undo it at the heal.

    The fault acted if the instance joined and left, and exited after the signal.
    """
    stage, _, worker = planned.target.name.partition("/")
    is_running = any(process.worker == worker for process in context.processes.workers(stage))
    scaled = _one_less if planned.parameters.get("role") == DOWN or is_running else _one_more
    with scaled(context, planned) as effect:
        yield effect
    effect.acted = effect.acted and not effect.unmet_goals


@contextmanager
def _one_more(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    stage, _, worker = planned.target.name.partition("/")
    other = InstanceMember.find(context, planned)
    effect = other.effect = InjectedFault(
        target=f"stage {stage} with {worker} in addition", short_target=f"stage {stage}"
    )
    try:
        before = members(context, other.process)
    except WaitTimeout as error:
        effect.unmet_goals[JOINED] = str(error)
        yield effect
        return
    process = join(context, stage, worker, effect, before)
    effect.details["worker"] = process.journal
    other.note_unready()
    try:
        yield effect
    finally:
        leave(context, process, effect)


@contextmanager
def _one_less(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    member = InstanceMember.find(context, planned)
    effect, process = member.effect, member.process
    assert process.stage is not None and process.worker is not None
    effect.target = f"stage {process.stage} without {process.journal}"
    effect.short_target = f"stage {process.stage}"
    has_left = leave(context, process, effect)
    member.note_unready()
    try:
        yield effect
    finally:
        if has_left:
            before = frozenset(context.cluster.members(process.group or "") or ())
            join(context, process.stage, process.worker, effect, before)


def _draw_more(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a stage with a group. The target is the instance with the next number."""
    stage = any_stage(rng, in_groups(targets))
    return DrawnFault(Target("worker", f"{stage}/{stage}-{len(targets.workers[stage]) + 1}"))


def _draw_less(rng: Random, targets: FaultTargets, name: str) -> Target:
    """Draw an instance of a stage with a group and with other instances."""
    return any_instance(rng, in_groups(targets), least=2, share=0.0).target


NEMESES: Sequence[Nemesis] = (
    # The instance should leave its group, so that the others take over at once, and not after the session time-out. It
    # must commit or abort its open transaction. An upgrade of a program restarts its instances in this way.
    Nemesis(
        name="restart-instance",
        summary="stop an instance of your own program by SIGTERM, and start it again",
        past_tense="was restarted",
        proves="it exited after the signal, its group went on without it, and a new instance joined",
        occupies=uses_workers,
        hold_s=1.0,
        recovery_s=8.0,
        draw=lambda rng, targets: any_instance(rng, targets, share=0.0),
        discovers_members=True,
        by_default=False,
        inject=restart_instance,
    ),
    # The additional instance has the next number, so `transactional_id` gives it an id of its own.
    Nemesis(
        name="scale-instances",
        summary="start one more instance of your own program, and stop it again; @down: one instance less",
        past_tense="was scaled",
        proves="an instance joined and left its group, and exited after the signal",
        occupies=uses_workers,
        hold_s=6.0,
        recovery_s=8.0,
        keeps_endpoint=True,
        draw=_draw_more,
        discovers_members=True,
        by_default=False,
        roles={DOWN: RoleChoice(_draw_less)},
        inject=scale_instances,
    ),
)
