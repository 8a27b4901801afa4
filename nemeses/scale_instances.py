"""scale-instances: start one more instance of a custom pipeline, and stop it again; @down: one instance less.

The instances share the partitions of their group anew, twice. The additional instance has the next number, so
`transactional_id` gives it an id of its own.
"""

from collections.abc import Iterator
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
)
from harness.runner.occupied import uses_workers
from nemeses.effects.instances import (
    any_instance,
    any_stage,
    await_working,
    in_groups,
    new_effect,
    note_unready,
)
from nemeses.effects.joining import JOINED, join, leave
from nemeses.effects.membership import members

DOWN = "down"


def draw_more(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a stage with a group. The target is the instance with the next number."""
    stage = any_stage(rng, in_groups(targets))
    return DrawnFault(Target("worker", f"{stage}/{stage}-{len(targets.workers[stage]) + 1}"))


def draw_less(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an instance of a stage with a group and with other instances."""
    return any_instance(rng, in_groups(targets), least=2, share=0.0)


@contextmanager
def scale_instances(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Start or stop an instance, and undo it at the heal.

    The fault acted if the instance joined and left, and exited after the signal.
    """
    stage, _, worker = planned.target.name.partition("/")
    is_running = any(member.worker == worker for member in context.processes.workers(stage))
    scaled = _one_less if planned.parameters.get("role") == DOWN or is_running else _one_more
    with scaled(context, planned) as effect:
        yield effect
    effect.acted = effect.acted and not effect.unmet_goals


@contextmanager
def _one_more(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    stage, _, worker = planned.target.name.partition("/")
    other, unready = await_working(context, planned.target)
    effect = InjectedFault(target=f"stage {stage} with {worker} in addition", short_target=f"stage {stage}")
    try:
        before = members(context, other)
    except WaitTimeout as error:
        effect.unmet_goals[JOINED] = str(error)
        yield effect
        return
    member = join(context, stage, worker, effect, before)
    effect.details["worker"] = member.journal
    note_unready(effect, unready)
    try:
        yield effect
    finally:
        leave(context, member, effect)


@contextmanager
def _one_less(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    member, unready = await_working(context, planned.target)
    assert member.stage is not None and member.worker is not None
    effect = new_effect(member)
    effect.target, effect.short_target = (
        f"stage {member.stage} without {member.journal}",
        f"stage {member.stage}",
    )
    has_left = leave(context, member, effect)
    note_unready(effect, unready)
    try:
        yield effect
    finally:
        if has_left:
            before = frozenset(context.cluster.members(member.group or "") or ())
            join(context, member.stage, member.worker, effect, before)


NEMESIS = Nemesis(
    name="scale-instances",
    summary="start one more instance of your own program, and stop it again; @down: one instance less",
    past_tense="was scaled",
    proves="an instance joined and left its group, and exited after the signal",
    occupies=uses_workers,
    hold_s=6.0,
    recovery_s=8.0,
    keeps_endpoint=True,
    draw=draw_more,
    discovers_members=True,
    by_default=False,
    roles={DOWN: RoleChoice(lambda rng, targets, name: draw_less(rng, targets).target)},
    inject=scale_instances,
)
