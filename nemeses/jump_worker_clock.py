"""jump-worker-clock: the wall clock of a worker jumps an hour ahead or behind, and back at the heal.

The client writes the time of this clock into its records (CreateTime). It measures time-outs with the monotonic clock,
which stays right. The parameter `ahead_s` says how far the clock jumps.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    NotForThisPipeline,
    PlannedFault,
    Target,
)
from nemeses.aiming.targets import choose, worker_in_role
from nemeses.effects.clocks import jump_of_process_clock, jump_process_clock


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker of a stage that writes topics."""
    if not any(targets.steps.values()):
        raise NotForThisPipeline("a workload")
    stages = [name for name in targets.stages if targets.writes.get(name) and targets.workers[name]]
    stage = choose(rng, stages, "a stage whose workers write a topic")
    return DrawnFault(Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}"))


@contextmanager
def jump_worker_clock(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Let the clock jump. The fault acted if the worker writes a record with a time of the changed clock."""
    member = worker_in_role(context.processes, planned.target)
    effect = InjectedFault(target=f"worker {member.journal}", details={"worker": member.journal})
    with jump_process_clock(context, planned, member, effect):
        yield effect


NEMESIS = jump_of_process_clock("jump-worker-clock", "a worker", draw, jump_worker_clock)
