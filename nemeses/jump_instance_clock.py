"""jump-instance-clock: the wall clock of an instance of a custom pipeline jumps an hour ahead or behind, and back.

The clock is that of the C library, so a program that does not use it is not affected, for example one in Go. The
parameter `ahead_s` says how far the clock jumps.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.effects.clocks import jump_of_process_clock, jump_process_clock
from nemeses.effects.instances import any_instance, await_working, new_effect, note_unready


@contextmanager
def jump_instance_clock(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Let the clock jump. The fault acted if the instance writes a record with a time of the changed clock."""
    member, unready = await_working(context, planned.target)
    effect = new_effect(member)
    with jump_process_clock(context, planned, member, effect):
        yield effect
    note_unready(effect, unready)


NEMESIS = jump_of_process_clock(
    "jump-instance-clock",
    "an instance of your own program",
    lambda rng, targets: any_instance(rng, targets, share=0.0),
    jump_instance_clock,
)
