"""What `--nemesis` asks for, as faults: a name, a name aimed at a step of the loop, or a whole sweep of steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.common.errors import UsageError
from harness.common.names import check_name
from harness.model.pipeline import PipelineSpec
from harness.model.vocabulary import STEPS_WITH_INPUT, WorkerStep

if TYPE_CHECKING:
    from harness.runner.nemesis import Nemesis

CRASH_POINTS = "crash-points"
"""A kill at every step of the loop, and a pause at each at which a worker holds what it has not committed."""


def require_known_fault(asked: str, faults: "Mapping[str, Nemesis]") -> None:
    """Raise `UsageError` where nothing is called so."""
    name, at, step = asked.partition("@")
    check_name("fault", name, {*faults, "none"} if at else {*faults, "none", CRASH_POINTS})
    if not at:
        return
    states = sorted(faults[name].states) if name in faults else []
    check_name("step", step.rpartition(":")[2], [*(one.value for one in WorkerStep), *states])
    if name == "none" or not faults[name].aimable:
        able = ", ".join(one for one, nemesis in faults.items() if nemesis.aimable)
        raise UsageError(f"{name} cannot be aimed at a step; these can: {able}")


def expand_names(asked: Sequence[str], pipeline: PipelineSpec) -> list[str]:
    """The names, with every step of a sweep in the place of its name."""
    found: list[str] = []
    for name in asked:
        if name == CRASH_POINTS:
            found += crash_point_names(pipeline)
        elif name != "none":
            found.append(name)
    return list(dict.fromkeys(found))


def crash_point_names(pipeline: PipelineSpec) -> list[str]:
    """What a sweep of the crash points asks for, in the order of the loop."""
    steps = list(dict.fromkeys(step for stage in pipeline.stages for step in stage.steps))
    kills = [f"kill-worker@{step}" for step in steps]
    held = {*STEPS_WITH_INPUT, *(step for one in pipeline.stages for step in one.zombie_steps)}
    return kills + [f"pause-worker@{step}" for step in steps if step in held]


def aim(asked: str, faults: "Mapping[str, Nemesis]") -> "Nemesis":
    """The fault, aimed at its step."""
    name, _, step = asked.partition("@")
    return replace(faults[name], at=step) if step else faults[name]


def requested_name(injection: Mapping[str, object], asked: Sequence[str]) -> str:
    """Which of the names that were asked for an injection of the schedule is for."""
    fault, step = str(injection.get("fault")), injection.get("step", injection.get("state"))
    stage = injection.get("stage", str(injection.get("target")).partition(":")[2].partition("/")[0])
    aims = (f"{fault}@{stage}:{step}", f"{fault}@{step}")
    return next((aim for aim in aims if aim in asked), fault)
