"""kill-postgres: kill all processes of the pipeline's PostgreSQL with SIGKILL, and start it again, so that it
recovers.

Committed changes survive, because PostgreSQL syncs its write-ahead log before it confirms a commit. Changes that were
not committed are lost, and all row locks are released.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.common.errors import FaultFailed
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
    Target,
    uses_services,
)

SERVICE = "postgres"


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Return the PostgreSQL server as the target."""
    if SERVICE not in targets.services:
        raise NotForThisPipeline("a workload that keeps a table in PostgreSQL, as outbox does")
    return DrawnFault(Target("server", SERVICE))


@contextmanager
def kill_postgres(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Kill the server. The fault acted if the signal ended its process. The heal fails if the server does not start."""
    service = context.services[planned.target.name]
    effect = InjectedFault(target=service.name, short_target="PostgreSQL")
    effect.mark_injected()
    ending = service.kill()
    try:
        if "SIGKILL" not in ending:
            raise FaultFailed(f"PostgreSQL was not killed by the fault: {ending}")
        effect.add_proof(ending)
        yield effect
    finally:
        effect.proof.append(service.start())


NEMESIS = Nemesis(
    name="kill-postgres",
    summary="kill -9 PostgreSQL with all of its processes, and start it again on its data",
    past_tense="was killed",
    proves="the signal ended its process",
    occupies=uses_services,
    hold_s=1.5,
    recovery_s=6.0,
    draw=draw,
    inject=kill_postgres,
    halts=True,
)
