"""Names of `--nemesis` that stand for several faults, and the names that planned faults were drawn from."""

from collections.abc import Mapping, Sequence

from harness.model.pipeline import PipelineSpec
from harness.model.vocabulary import STEPS_WITH_INPUT

CRASH_POINTS = "crash-points"
"""Means a kill at every step of the loop, and a pause at every step at which a worker has uncommitted inputs."""

RANDOM = "random"
"""Means one default fault after another, each drawn from the seed."""


def is_drawn(names: Sequence[str] | None) -> bool:
    """Return whether the user left it to the seed which of the default faults a run has."""
    return names is None or tuple(names) == (RANDOM,)


def has_weights(names: Sequence[str]) -> bool:
    """Return whether faults are drawn by weight. Then none of them has to be in the schedule."""
    return RANDOM in names or any("=" in name for name in names)


def expand_names(names: Sequence[str], pipeline: PipelineSpec) -> list[str]:
    """Replace `crash-points` by its faults, and leave out `none` and repetitions."""
    faults: list[str] = []
    for name in names:
        if name == CRASH_POINTS:
            faults += crash_point_names(pipeline)
        elif name != "none":
            faults.append(name)
    return list(dict.fromkeys(faults))


def crash_point_names(pipeline: PipelineSpec) -> list[str]:
    """The faults of `crash-points`: kills in the order of the loop, then pauses."""
    steps = list(dict.fromkeys(step for stage in pipeline.stages for step in stage.steps))
    kills = [f"kill-worker@{step}" for step in steps]
    with_input = {*STEPS_WITH_INPUT, *(step for stage in pipeline.stages for step in stage.zombie_steps)}
    return kills + [f"pause-worker@{step}" for step in steps if step in with_input]


def requested_name(planned_fault: Mapping[str, object], requested: Sequence[str]) -> str:
    """The name in `requested` from which a planned fault was drawn."""
    fault, step = str(planned_fault.get("fault")), planned_fault.get("step", planned_fault.get("state"))
    stage = planned_fault.get("stage", str(planned_fault.get("target")).partition(":")[2].partition("/")[0])
    api, error = planned_fault.get("api"), planned_fault.get("error")
    candidates = (
        f"{fault}@{planned_fault.get('role')}",
        f"{fault}@{stage}:{step}",
        f"{fault}@{step}",
        f"{fault}@{api}:{error}",
        f"{fault}@{api}",
    )
    return next((name for name in candidates if name in requested), fault)
