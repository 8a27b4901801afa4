"""The faults that a user wrote: `--schedule FILE`.

The file has tables `[[schedule]]` as `run.toml` has them. What an entry leaves out gets a default: `hold_s` is that of
the fault, and the target and the parameters are drawn from the seed. An entry that cannot be injected is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from fencepost import registry
from fencepost.registry import aim, require_known_fault
from fencepost.runs.protocol_rules import planned_rule
from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import check_name, on_one_line, unknown
from harness.protocol.rule_options import flat_table
from harness.runner.nemesis import BROKER, DrawnFault, FaultTargets, Nemesis, NoTarget, PlannedFault, Target
from harness.runner.schedule import missing_need, why_not_together
from harness.settings.options import Options
from harness.settings.run_file import TABLES
from nemeses.aiming.roles import BY_NUMBER, ROLES, require_numbers

OWN = ("fault", "target", "start_s", "hold_s")
AIMS = ("step", "state", "stage", "prefers", "role")
"""Parameters that several faults have."""
GREATEST = 1e12
"""The largest number that a schedule may have."""
DRAWS = 40
"""How often a fault is drawn to find the roles that its target can have."""


def written_faults(options: Options, targets: FaultTargets) -> list[PlannedFault]:
    """Read the faults of `options.schedule`, and complete them. Raises `UsageError`."""
    assert options.schedule is not None
    file = Path(options.schedule)
    rng = Random(f"{options.seed}/schedule")
    faults = []
    for number, entry in enumerate(_entries(file), 1):
        where = f"--schedule {on_one_line(str(file))}: [[schedule]] {number}"
        try:
            faults.append(_Entry(flat_table(entry, where), options, targets, rng).plan())
        except NoTarget as error:
            raise UsageError(f"{where}: {entry['fault']} needs {error}") from None
        except UsageError as error:
            message = str(error)
            raise UsageError(message if message.startswith(where) else f"{where}: {message}") from None
    _require_possible_overlaps(faults, f"--schedule {on_one_line(str(file))}")
    return faults


def _entries(file: Path) -> Sequence[Mapping[str, Any]]:
    where = f"--schedule {on_one_line(str(file))}"
    try:
        document = read_toml(file)
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{where} is not TOML: {on_one_line(str(error))}") from error
    for name in document:
        if name not in TABLES:
            raise UsageError(f"{where}: {unknown('table', name, TABLES)}")
    entries = document.get("schedule")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{where} has no [[schedule]]: write one for each fault")
    return entries


class _Entry:
    """One table `[[schedule]]`."""

    def __init__(
        self, table: Mapping[str, str | int | float], options: Options, targets: FaultTargets, rng: Random
    ) -> None:
        self._table = table
        self._limit_s = options.time_limit_s
        self._options = options
        self._targets = targets
        self._rng = rng

    def plan(self) -> PlannedFault:
        """Return the planned fault. Raises `UsageError` or `NoTarget`."""
        nemeses = registry.nemeses()
        text = str(self._table.get("fault", ""))
        if not text:
            raise UsageError('it has no fault: write for example fault = "kill-broker"')
        name = text.partition("@")[0]
        check_name("fault", name, nemeses)
        if name == "rule":
            own = {key: value for key, value in self._table.items() if key not in ("fault", "target")}
            if "since" in own and not own.get("start_s"):  # as a stored run has it
                own.pop("start_s", None)
            planned = planned_rule(self._options, own)
        else:
            nemesis = self._aimed(text, nemeses)
            if need := missing_need(nemesis, self._targets):
                raise UsageError(f"{nemesis.option} {need}")
            drawn = self._drawn(nemesis)
            start_s, hold_s = self._seconds("start_s"), self._seconds("hold_s", nemesis.hold_s)
            planned = PlannedFault(name, drawn.target, start_s, hold_s, drawn.parameters)
        if planned.end_s > self._limit_s:
            raise UsageError(
                f"{name} begins at {planned.start_s:g} s and lasts {planned.hold_s:g} s, and the run ends after "
                f"{self._limit_s:g} s: choose another time, or a longer --time-limit"
            )
        return planned

    def _aimed(self, text: str, nemeses: Mapping[str, Nemesis]) -> Nemesis:
        """The fault, aimed at what the entry says: after @, or in its parameters."""
        table = self._table
        nemesis = nemeses[text.partition("@")[0]]
        at = table.get("step", table.get("state", table.get("role")))
        target = Target.parse(str(table.get("target", "")))
        if at is None and "@" not in text and target.role in nemesis.roles:
            at = target.role
        if at is not None and "stage" in table:
            at = f"{table['stage']}:{at}"
        if nemesis.api_aim:
            api = table.get("api", target.name if target.role == "api" else None)
            at = f"{api}:{table['error']}" if api and "error" in table else api
        if at is not None and "@" in text:
            raise UsageError(f"{text} is aimed twice: leave out {text.partition('@')[2]}, or the other aim")
        text = text if at is None else f"{text}@{at}"
        require_known_fault(text, nemeses)
        return aim(text, nemeses)

    def _drawn(self, nemesis: Nemesis) -> DrawnFault:
        """The target and the parameters: as written, or else drawn."""
        written = {name: value for name, value in self._table.items() if name not in OWN}
        if "target" not in self._table:
            drawn = nemesis.draw_fault(self._rng, self._targets)
        else:
            target = Target.parse(str(self._table["target"]))
            is_named = (
                bool(target.name) or target.role not in nemesis.roles
            )  # else the name of the role is drawn
            if is_named:
                self._require_target(nemesis, target)
            stage = target.name.partition("/")[0] if target.role == "worker" else self._targets.stage
            drawn = nemesis.draw_fault(self._rng, replace(self._targets, stage=stage))
            drawn = replace(drawn, target=target) if is_named else drawn
            # They are not needed, and the entry of a stored run may have none.
            own = {name: value for name, value in drawn.parameters.items() if name not in ("prefers", "role")}
            drawn = replace(drawn, parameters=own)
        for name, value in written.items():
            known = (*drawn.parameters, *AIMS, *nemesis.api_aim)
            if name not in known:
                raise UsageError(unknown("name", name, (*OWN, *known)))
            values = nemesis.parameters.get(name, ())
            if values and isinstance(values[0], float):
                least, most = nemesis.limits.get(name, (-GREATEST, GREATEST))
                if not _is_number(value) or not least <= float(value) <= most:
                    between = f" from {least:g} to {most:g}" if name in nemesis.limits else ""
                    raise UsageError(
                        f"{name} is {on_one_line(repr(value))}: write a number{between}, for example {values[0]:g}"
                    )
            elif values and not _is_one_of(value, values, nemesis.limits.get(name)):
                choices = _describe_values(values, nemesis.limits.get(name))
                raise UsageError(f"{name} is {on_one_line(repr(value))}: write {choices}")
        return replace(drawn, parameters={**drawn.parameters, **written})

    def _require_target(self, nemesis: Nemesis, target: Target) -> None:
        """Raise `UsageError` if the fault cannot act on the target, or the run does not have it."""
        drawn = [nemesis.draw_fault(Random(n), self._targets).target for n in range(DRAWS)]
        roles = {each.role for each in drawn}
        if target.role not in roles:
            example = f'write for example target = "{drawn[0]}"'
            raise UsageError(f"{nemesis.name} cannot act on {on_one_line(str(target))}: {example}")
        if nemesis.role_of_names == target.role:  # it says itself which names are possible
            nemesis.roles[target.role].draw(Random(0), self._targets, target.name)
            return
        names = _names(target.role, self._targets)
        if names is None and not target.brokers:
            names = sorted({each.name for each in drawn if each.role == target.role})
        if names is not None and target.name not in {*names, *(each.name for each in drawn)}:
            raise UsageError(unknown(f"target {target.role}", target.name, names))
        if target.role in nemesis.roles and nemesis.roles[target.role].named_by:
            nemesis.roles[target.role].draw(
                Random(0), self._targets, target.name
            )  # it refuses an unknown name
        is_shape = target.role in nemesis.roles and nemesis.roles[target.role] is not ROLES.get(target.role)
        if target.role in BY_NUMBER and target.role != BROKER and not is_shape:
            require_numbers(target.role, target.name, self._targets.brokers)
        brokers = {str(number) for number in self._targets.brokers}
        for number in sorted(target.brokers - brokers):
            raise UsageError(unknown("broker", number, brokers))

    def _seconds(self, name: str, default: float | None = None) -> float:
        value = self._table.get(name, default)
        if value is None:
            raise UsageError(
                f"it has no {name}: write how many seconds after the first input the fault begins"
            )
        if not _is_number(value) or float(value) < 0 or (name == "hold_s" and not value):
            raise UsageError(f"{name} is {on_one_line(repr(value))}: write a number of seconds")
        return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= GREATEST


def _is_one_of(
    value: object, values: range | Sequence[str] | Sequence[float], limits: tuple[float, float] | None
) -> bool:
    """Return whether a schedule of the user may have this value. `limits`: of a whole number; None: as drawn."""
    if not isinstance(values, range):
        return value in values
    least, most = limits or (values[0], values[-1])
    return type(value) is int and least <= value <= most


def _describe_values(
    values: range | Sequence[str] | Sequence[float], limits: tuple[float, float] | None
) -> str:
    if isinstance(values, range):
        least, most = limits or (values[0], values[-1])
        return f"a whole number from {least} to {most}"
    return " or ".join(f'"{value}"' for value in values)


def _names(role: str, targets: FaultTargets) -> Collection[str] | None:
    """Return the names that a target with this role can have in the run. None: any."""
    brokers = [str(number) for number in targets.brokers]
    partitions = [f"{topic}/{partition}" for topic, partition in targets.topic_partitions]
    names: dict[str, Collection[str]] = {
        "leader": partitions,
        "follower": partitions,
        "broker": brokers,
        "txn-coordinator": targets.ids,
        "group-coordinator": list(targets.groups.values()),
        "worker": [f"{stage}/{name}" for stage, names in targets.workers.items() for name in names],
        "isolate": brokers,
        "pair": [f"{first}-{second}" for first in brokers for second in brokers if first < second],
        "client": [f"{endpoint}-{broker}" for endpoint in targets.endpoints for broker in brokers],
        "server": targets.services,
        "topic": targets.topics,
    }
    return names.get(role)


def _require_possible_overlaps(faults: Sequence[PlannedFault], where: str) -> None:
    """Raise `UsageError` if two faults overlap that cannot."""
    nemeses = registry.nemeses()
    for first, second in combinations(faults, 2):
        why = why_not_together(first, second, nemeses) if first.overlaps(second) else None
        if why is not None:
            raise UsageError(
                f"{where}: {first.fault} at {first.start_s:g} s and {second.fault} at {second.start_s:g} s cannot "
                f"overlap, because {why}: let the second begin after {first.end_s:g} s"
            )
