"""pause-instance: pause an instance of a custom pipeline until its group goes on without it, and resume it: a zombie.

It is replaced by an instance with the same transactional id. When it is resumed, it continues with inputs that others
have processed. Its requests must have no effect. `pause-instance-unreplaced` does the same without a replacement.

If the fault is aimed at prepare-commit, the instance is paused when its commit is accepted. So its transaction is
committed, and it gets the response when it is resumed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import StartFailed, WaitTimeout
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
)
from harness.runner.run_process import RunProcess
from nemeses.effects.instances import EXTRA_NEEDS, STATES, any_instance, in_groups, occupied_resources
from nemeses.effects.zombie_instances import PROVES, pause_until_taken_over


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw an instance of a stage with a group."""
    return any_instance(rng, in_groups(targets))


@contextmanager
def pause_instance(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Pause the instance, replace it, and resume it."""
    with pause_until_taken_over(context, planned, _replace) as effect:
        yield effect


def _replace(
    context: FaultContext, member: RunProcess, effect: InjectedFault, departed: Callable[[], str]
) -> str:
    """Start the replacement. Wait until the group goes on, and until the replacement is ready.

    If the replacement ends before it is ready, the run starts another one.
    """
    replacement = context.processes.replace(member)
    departure = departed()
    if departure:
        try:
            context.processes.await_ready([replacement])
        except (StartFailed, WaitTimeout) as error:
            effect.proof.append(str(error))
    return departure


NEMESIS = Nemesis(
    name="pause-instance",
    summary="SIGSTOP an instance of your own program, SIGCONT after its group has gone on without it: a zombie",
    past_tense="was paused and replaced",
    proves=PROVES,
    occupies=occupied_resources,
    hold_s=1.0,
    recovery_s=30.0,
    keeps_endpoint=True,
    draw=draw,
    aimable=True,
    discovers_ids=True,
    discovers_members=True,
    states=STATES,
    extra_needs_by_state=EXTRA_NEEDS,
    inject=pause_instance,
)
