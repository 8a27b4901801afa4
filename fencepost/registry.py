"""Look up workloads, faults, defects and anomalies by name, and write the command that repeats a run.

A name of `--nemesis` is a fault, one that is aimed (`kill-worker@after-send`), several that overlap
(`kill-broker+partition`), `crash-points` or `random`. A weight may follow: `kill-broker=3`.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from checkers.catalogue import catalogue
from harness.cluster.kinds.registry import CLUSTERS, require_options
from harness.common.errors import UsageError
from harness.common.wording import check_name, nearest
from harness.environment.kafka import versions
from harness.model.fault_names import CRASH_POINTS, RANDOM, expand_names
from harness.model.pipeline import PipelineSpec
from harness.model.vocabulary import WorkerStep
from harness.protocol.rule_options import rules_of
from harness.settings.options import FIELDS, KnownNames, Options

if TYPE_CHECKING:
    from harness.runner.nemesis import Nemesis
    from workloads.custom.pipeline import CustomPipeline
    from workloads.defects import Defect
    from workloads.model.workload import Workload

MOST_WEIGHT = 1000


def command_line(options: Options, command: str = "run") -> str:
    """The shell command that runs `fencepost COMMAND` with these options. It names only options that are not defaults.

    Each secret is replaced by a placeholder, which the user has to fill in.
    """
    options = options.redacted()
    fixes_brokers = CLUSTERS[options.cluster].brokers is not None
    words = ["fencepost", command]
    for key, option in FIELDS.items():
        value = getattr(options, option.name)
        default = getattr(Options(), option.name)
        if value == default or (key == "brokers" and fixes_brokers):
            continue
        if isinstance(value, Mapping):
            prefix, flag = ("", "--spark-conf") if key == "spark-conf" else (f"{key}.", "--set")
            for name, setting in value.items():
                words += [flag, f"{prefix}{name}={setting}"]
        elif key == "rule":
            words += [word for rule in value for word in ("--rule", rule)]
        elif option.metadata["flag"]:
            words += [f"--{key}", _as_text(value)]
        else:
            words += ["--set", f"{key}={_as_text(value)}"]
    return shlex.join(words)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def require_known_name(text: str, faults: "Mapping[str, Nemesis]") -> None:
    """Raise `UsageError` for a name of `--nemesis` that is not known."""
    name, equals, weight = text.partition("=")
    if equals:
        _ = _weight(name, weight)
    together = name.split("+")
    for part in together:
        special = next((known for known in ("none", CRASH_POINTS, RANDOM) if part == known), None)
        if special and (len(together) > 1 or (equals and special != CRASH_POINTS)):
            raise UsageError(f"{special} cannot be a part of {text}: name a fault in its place")
        if part != RANDOM:
            require_known_fault(part, faults)


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MOST_WEIGHT:
        raise UsageError(f"the weight of {name} must be a number above 0, at most {MOST_WEIGHT}, not {text}")
    return weight


def weights_of(
    names: Sequence[str], pipeline: PipelineSpec, faults: "Mapping[str, Nemesis]"
) -> dict[str, float]:
    """Return the weight of each name without its weight. The default is 1, and the last weight of a name counts.

    Raises `UsageError` if `random` is named with others.
    """
    if RANDOM in names:
        if len(names) > 1:
            raise UsageError(
                f"{RANDOM} draws from all default faults: leave it out and give each fault a weight (kill-broker=3), "
                "or leave out the others"
            )
        names = [name for name, nemesis in faults.items() if nemesis.by_default]
    weights: dict[str, float] = {}
    for text in names:
        name, equals, weight = text.partition("=")
        for each in expand_names([name], pipeline):
            weights[each] = _weight(name, weight) if equals else weights.get(each, 1.0)
    return weights


def require_known_fault(text: str, faults: "Mapping[str, Nemesis]") -> None:
    """Raise `UsageError` for an unknown fault, step or role, and for a fault that cannot be aimed at it."""
    name, at, step = text.partition("@")
    check_name("fault", name, {*faults, "none"} if at else {*faults, "none", CRASH_POINTS})
    if not at:
        return
    if name in faults and faults[name].api_aim:
        faults[name].require_api_aim(step)
        return
    if name in faults and (kind := faults[name].role_of_names) and not step:
        named_by = faults[name].roles[kind].named_by
        raise UsageError(f"{text} has nothing after the @: write {name}@{named_by}, or {name} alone")
    if name in faults and (role := faults[name].role_at(step)) is not None:
        if role[1] and not faults[name].roles[role[0]].named_by:
            raise UsageError(
                f"the role {role[0]} has no name after a colon: write {name}@{role[0]}, not {text}"
            )
        return
    states, roles = (faults[name].states, faults[name].roles) if name in faults else ((), {})
    first, _, last = step.rpartition(":")
    chosen = first if nearest(first, roles) else last
    kind = "step or role" if roles else "step"
    check_name(kind, chosen, [*(known.value for known in WorkerStep), *sorted(states), *roles])
    if name == "none" or not faults[name].aimable:
        aimable = ", ".join(known for known, nemesis in faults.items() if nemesis.aimable)
        raise UsageError(f"{name} cannot be aimed at a step; these can: {aimable}")


def aim(text: str, faults: "Mapping[str, Nemesis]") -> "Nemesis":
    """The fault that `text` names, aimed at the step, state or role after `@`."""
    name, _, step = text.partition("@")
    return replace(faults[name], at=step) if step else faults[name]


def workloads() -> "Mapping[str, Workload]":
    """The workloads, by name."""
    from workloads.registry import WORKLOADS

    return WORKLOADS


def pipeline_of(options: "Options") -> "Workload | CustomPipeline":
    """The workload or custom pipeline that the options name. Raises `UsageError`."""
    if options.pipeline is None:
        from workloads.registry import ALL

        return ALL[options.workload]
    from workloads.custom.pipeline import CustomPipeline

    return CustomPipeline.load(options.pipeline)


def nemeses() -> "Mapping[str, Nemesis]":
    """The faults, by name."""
    from nemeses.registry import NEMESES

    return NEMESES


def planned_nemeses() -> "Mapping[str, Nemesis]":
    """The faults that a schedule can have, by name: also those that a user cannot name."""
    from nemeses.registry import HIDDEN, NEMESES

    return {**NEMESES, **HIDDEN}


def defects() -> "Mapping[str, Defect]":
    """The defects, by name."""
    from workloads.defects import DEFECTS

    return DEFECTS


def anomalies() -> Mapping[str, str]:
    """For each anomaly: the first sentence of its checker's docstring, which is its specification."""
    return {anomaly.name: anomaly.sentence for anomaly in catalogue()}


def kafka_versions() -> tuple[str, ...]:
    """The Kafka versions that a lock file pins."""
    return versions()


def known_names() -> KnownNames:
    """All names that the values of options may contain."""
    return KnownNames(
        workloads=workloads(),
        require_fault=lambda fault: require_known_name(fault, nemeses()),
        require_cluster=require_options,
        defects=defects(),
        kafka=kafka_versions(),
        read_rules=rules_of,
    )
