"""From options to a plan: the schedule of faults, what is fixed before a run begins, and what repeats it."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from fencepost import registry
from harness.clients.librdkafka import SESSION_TIMEOUT_MS
from harness.record.tables import StageFacts
from harness.runner import schedule as schedules
from harness.runner.processes import Clock
from harness.runner.run import Test
from harness.runner.schedule import FaultTargets, Nemesis, Schedule
from harness.settings.options import Options
from harness.settings.test_toml import Plan

if TYPE_CHECKING:
    from workloads.model import Workload

SPARE_SLOTS = 2
"""Client slots beyond one a worker and those that faults keep: for workers that end by themselves."""


def draw(options: Options, workload: "Workload") -> Schedule:
    """The schedule of these options: the same for the same seed. Raises `UsageError`."""
    nemeses = registry.nemeses()
    defect = registry.defects()[options.defect] if options.defect else None
    named = options.nemesis is not None
    if options.nemesis is not None:
        names: tuple[str, ...] = tuple(name for name in options.nemesis if name != "none")
    elif defect is not None:
        names = defect.nemesis
    else:
        names = tuple(nemeses)
    workers = workers_of(options, workload)
    grounds = FaultTargets(
        brokers=tuple(range(1, options.brokers + 1)),
        places=tuple((topic, p) for topic in workload.topics for p in range(options.partitions)),
        workers=workers,
        groups=tuple(stage.group for stage in workload.stages),
        slots=tuple(f"w{n}" for n in range(sum(map(len, workers.values())))),
        stage=defect.stage if defect and not named else None,
        step=defect.step.value if defect and defect.step and not named else None,
    )
    rng = Random(f"{options.seed}/schedule")
    chosen: list[Nemesis] = [nemeses[name] for name in names]
    return schedules.draw(chosen, grounds, options.time_limit_s, rng, named=named or defect is not None)


def workers_of(options: Options, workload: "Workload") -> dict[str, tuple[str, ...]]:
    """The workers of each stage, by name."""
    return {
        stage.name: tuple(f"{stage.name}-{n}" for n in range(1, options.workers + 1))
        for stage in workload.stages
    }


def plan_test(options: Options, workload: "Workload", drawn: Schedule, folder: Path) -> Test:
    """Everything that is fixed before the run begins."""
    workers = workers_of(options, workload)
    nemeses = registry.nemeses()
    kept = sum(nemeses[strike.fault].keeps_slot for strike in drawn.injections)
    slots = sum(map(len, workers.values())) + kept + SPARE_SLOTS
    return Test(
        options=options,
        folder=folder,
        topics=workload.topics,
        outputs=workload.outputs,
        stages=tuple(
            StageFacts(stage.name, stage.group, stage.in_topic, stage.promised.value, stage.ordered)
            for stage in workload.stages
        ),
        workers=workers,
        worker_slots=tuple(f"w{n}" for n in range(slots)),
        injections=drawn.injections,
        nemeses=nemeses,
        common={
            "workload": workload.name,
            "defect": options.defect,
            "txn_size": options.txn_size,
            "abort_share": options.abort_share,
            "seed": options.seed,
        },
    )


def described(workload: "Workload", stages: Sequence[StageFacts]) -> dict[str, Any]:
    """What `test.toml` says of the workload: all that the checkers need to know."""
    return {
        "name": workload.name,
        "topics": list(workload.topics),
        "allowed": sorted(workload.allowed),
        "stages": [vars(facts) for facts in stages],
    }


def plan_run(
    options: Options,
    test: Test,
    drawn: Schedule,
    workload: "Workload",
    command: str,
    started: datetime,
    clock: Clock,
) -> Plan:
    """All that is needed to repeat the run, and the one wall-clock time."""
    return Plan(
        options,
        {
            "id": secrets.randbits(62),
            "started": started.isoformat(timespec="seconds"),
            "seed": options.seed,
            "command": command,
            "wall_ms_at_zero": clock.wall_ms_at_zero,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
        },
        [strike.as_table() for strike in drawn.injections],
        described(workload, test.stages),
    )
