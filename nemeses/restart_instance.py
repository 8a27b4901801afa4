"""restart-instance: stop an instance of a custom pipeline by its stop signal, and start it again.

The instance should leave its group, so that the others take over at once, and not after the session time-out. It must
commit or abort its open transaction. An upgrade of a program restarts its instances in this way.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_workers
from nemeses.effects.instances import any_instance, await_working, new_effect, note_unready
from nemeses.effects.joining import join, leave


@contextmanager
def restart_instance(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Restart the instance.

    The fault acted if the instance exited, the group went on without it, and a new instance joined.
    """
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)

    def replace(before: frozenset[str]) -> None:
        assert member.stage is not None and member.worker is not None
        join(context, member.stage, member.worker, effect, before)

    leave(context, member, effect, replace)
    effect.acted = effect.acted and not effect.unmet_goals
    note_unready(effect, unready)
    yield effect


NEMESIS = Nemesis(
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
)
