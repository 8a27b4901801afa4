"""jump-instance-clock: the wall clock of an instance of a custom pipeline jumps an hour ahead or behind, and back.

The clock is that of the C library, so a program that does not use it is not affected, for example one in Go. The
parameter `ahead_s` says how far the clock jumps.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.cluster import Ability
from harness.model.vocabulary import Premise
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_workers
from nemeses.effects.clocks import JUMPS_S, jump_process_clock
from nemeses.effects.instances import any_instance, await_working, new_effect, note_unready


@contextmanager
def jump_instance_clock(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Let the clock jump. The fault acted if the instance writes a record with a time of the changed clock."""
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    with jump_process_clock(context, planned, member, effect):
        yield effect
    note_unready(effect, unready)


NEMESIS = Nemesis(
    name="jump-instance-clock",
    summary="the wall clock of an instance of your own program jumps an hour ahead or behind",
    past_tense="had a clock that jumped",
    proves="a record with a time of the changed clock is in an output topic",
    needs=frozenset({Ability.CLOCKS, Ability.SEGMENTS}),
    broken_premises=frozenset({Premise.ONE_CLOCK}),
    occupies=uses_workers,
    hold_s=8.0,
    recovery_s=4.0,
    draw=lambda rng, targets: any_instance(rng, targets, share=0.0),
    parameters={"ahead_s": JUMPS_S},
    inject=jump_instance_clock,
    by_default=False,
)
