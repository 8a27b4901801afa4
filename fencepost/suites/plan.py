"""Plan a suite: read its file, or the record of a suite that is resumed, and complete the options of each cell.

Every cell is validated and its faults are drawn before anything starts, so that a suite cannot fail on its last cell
because of a wrong option.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from msgspec import structs

from fencepost import registry
from fencepost.registry import command_line
from fencepost.runs.planning import draw_schedule
from fencepost.suites import outcome
from fencepost.suites.cells import (
    DRAWN,
    MatrixRow,
    matches,
    nemesis_text,
    plan_exploration,
    rows,
    set_options,
    sets_as_toml,
    slug_of,
)
from fencepost.suites.outcome import ListedFailures
from harness.clients.client_properties import ClientProperties
from harness.cluster.kinds.registry import check_brokers_option, kafka_version_of
from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import REDACTED, on_one_line, unknown
from harness.results.suite import Cell, Suite
from harness.settings.options import FIELDS, Options, from_toml, to_toml

TABLES = ("suite", "defaults", "matrix", "include", "explore", "exclude", "known", "expected")
LISTS = ("include", "explore", "exclude", "known", "expected")
SETTINGS = ("name", "seed", "judge")
TOGETHER, EACH = "together", "each"
CHECK_TIMES = (TOGETHER, EACH)
OPTIONAL = "optional"
"""Key of `[[exclude]]`: the table may match no cell."""
SEED_BITS = 32
OWN_CLIENT = "its own client"
"""The client of a user's pipeline."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_IN_EVERY_NAME = ("workload", "pipeline", "client", "nemesis", "schedule")
"""Options that are part of every cell's name, so that names do not change when the suite file gets another list."""


@dataclass(frozen=True)
class SuitePlan:
    """A suite that is ready to run."""

    suite: Suite
    options: Mapping[str, Options]  # by name of the cell, with secrets
    failures: ListedFailures


@dataclass(frozen=True)
class SuiteRequest:
    """The options of `fencepost suite` that concern the plan."""

    settle: Callable[[Options], Options]  # completes options as `fencepost run` does; raises `UsageError`
    seed: int | None = None
    judge: str | None = None
    name: str | None = None
    sets: Sequence[Mapping[str, Any]] = ()  # the options of each --set


def load(path: Path, request: SuiteRequest) -> SuitePlan:
    """Plan a new suite from its file. Raises `UsageError` in one sentence that names the file and the cell."""
    try:
        document = read_toml(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no TOML: {on_one_line(str(error))}") from error
    try:
        return _plan(str(path), document, request)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _plan(file: str, document: Mapping[str, Any], request: SuiteRequest) -> SuitePlan:
    for name, table in document.items():
        if name not in TABLES:
            raise UsageError(unknown("table", name, TABLES))
        if name not in LISTS and not isinstance(table, dict):
            raise UsageError(f"{name} must be a table, [...]")
        if name in LISTS and not (
            isinstance(table, list) and all(isinstance(entry, dict) for entry in table)
        ):
            raise UsageError(f"{name} must be a list of tables, [[...]]")
    name, seed, judge = _settings(file, document.get("suite", {}), request)
    cells = _cells(seed, document, request)
    if not cells:
        raise UsageError("it has no cell: name workloads in [matrix], or a cell in [[include]]")
    listed = outcome.read(document.get("known", []), document.get("expected", []))
    outcome.require_consistent(listed, [cell for cell, _ in cells])
    suite = Suite(
        name=name,
        file=file,
        seed=seed,
        judge=judge,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        cells=[cell for cell, _ in cells],
        known=[failure.as_json() for failure in listed.known],
        expected=[failure.as_json() for failure in listed.expected],
        sets=sets_as_toml(request.sets),
    )
    return SuitePlan(suite, {cell.name: options for cell, options in cells}, listed)


def _settings(file: str, table: Mapping[str, Any], request: SuiteRequest) -> tuple[str, int, str]:
    """The name, the seed, and the value of `judge`."""
    for key in table:
        if key not in SETTINGS:
            raise UsageError(f"suite: {unknown('key', key, SETTINGS)}")
    name = table.get("name", Path(file).stem) if request.name is None else request.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "latest":
        raise UsageError(
            "suite: name must be up to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit, and "
            f"not latest; it is {name!r}"
        )
    seed = table.get("seed", secrets.randbelow(2**SEED_BITS)) if request.seed is None else request.seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UsageError(f"suite: seed must be a whole number from 0 to {2**63 - 1}, not {seed!r}")
    judge = request.judge or table.get("judge", TOGETHER)
    if judge not in CHECK_TIMES:
        raise UsageError(f"suite: judge must be {' or '.join(CHECK_TIMES)}, not {judge!r}")
    return name, seed, judge


def _cells(seed: int, document: Mapping[str, Any], request: SuiteRequest) -> list[tuple[Cell, Options]]:
    """The cells that no `[[exclude]]` matches, each with its options."""
    cells: dict[str, tuple[Cell, Options]] = {}
    exclude = [_exclude(f"exclude {n}", body) for n, body in enumerate(document.get("exclude", []), 1)]
    unused = [table for table in exclude if not table.optional]
    tables = (document.get("defaults", {}), document.get("matrix", {}), document.get("include", []))
    for n, row in enumerate(rows(*tables, request.sets), 1):
        values = dict(row.values)
        if values.get("nemesis") == DRAWN:
            values.pop("nemesis")
        options = Options().updated(values)
        check_brokers_option(options.cluster, values)
        name = _name(row, options)
        actual = {**to_toml(options), "nemesis": _nemesis(options)}
        matching = [table for table in exclude if matches(table.where, table.options, actual)]
        unused = [table for table in unused if table not in matching]
        if matching:
            continue
        if name in cells:
            raise UsageError(f'two cells have the name "{name}": give them different options')
        cells[name] = _cell(n, seed, name, row, options, request)
    for n, table in enumerate(document.get("explore", []), len(cells) + 1):
        cell, options = plan_exploration(n, table, request.sets, request.settle)
        if cell.name in cells:
            raise UsageError(f'two cells have the name "{cell.name}": give them different options')
        cells[cell.name] = cell, options
    for table in unused:
        raise UsageError(f"{table.where} matches no cell of this suite: correct it, or remove it")
    return list(cells.values())


@dataclass(frozen=True)
class _Exclude:
    """One table `[[exclude]]`."""

    where: str
    options: Mapping[str, Any]
    optional: bool  # it may match no cell, for instance where --set chooses another version


def _exclude(where: str, table: Mapping[str, Any]) -> _Exclude:
    """Raises `UsageError` for a name that does not exist, because the table would match no cell."""
    optional = table.get(OPTIONAL, False)
    if not isinstance(optional, bool):
        raise UsageError(f"{where}: {OPTIONAL} must be true or false, not {optional!r}")
    for key in ("workload", "client", "kafka", "defect"):
        values = table.get(key, [])
        for value in values if isinstance(values, list) else [values]:
            try:
                Options().updated({key: value}).validated(registry.known_names())
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
    return _Exclude(where, {key: value for key, value in table.items() if key != OPTIONAL}, optional)


def _name(row: MatrixRow, options: Options) -> str:
    """The name of a cell: its workload, client and nemesis, then the options that distinguish it from other cells.

    The next suite gives an equal cell the same name.
    """
    client = [options.client] if options.pipeline is None else []
    words = [_workload(options), *client, _nemesis(options)]
    words += [f"{key}={value}" for key, value in _more(row, options).items()]
    words += [f"#{row.repeat}"] if row.repeat is not None else []
    return on_one_line(" ".join(words))


def _workload(options: Options) -> str:
    """The workload, or the file of a user's pipeline."""
    return options.workload if options.pipeline is None else str(Path(options.pipeline).with_suffix(""))


def _nemesis(options: Options) -> str:
    """The faults of a cell in words: their names, or the file that has them, or `drawn`."""
    if options.schedule is not None:
        return str(Path(options.schedule).with_suffix(""))
    return str(nemesis_text("nemesis", options.nemesis))


def _more(row: MatrixRow, options: Options) -> dict[str, str]:
    """The other options that distinguish a cell. Secrets are redacted, because names are stored and shown."""
    stored = {key: _text(value) for key, value in to_toml(options).items()}
    own = {key: _text(row.own[key]) for key in FIELDS if key in row.own and key not in _IN_EVERY_NAME}
    return {key: stored[key] if REDACTED in stored.get(key, "") else text for key, text in own.items()}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={setting}" for name, setting in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(
    n: int, seed: int, name: str, row: MatrixRow, requested: Options, request: SuiteRequest
) -> tuple[Cell, Options]:
    """Validate a cell and draw its faults once. Raises `UsageError`, which names the cell, if it cannot run."""
    if requested.seed is None:
        requested = replace(requested, seed=Random(f"{seed}/{name}").randrange(2**SEED_BITS))
    try:
        options = request.settle(requested)
        draw_schedule(options, registry.pipeline_of(options))
        if options.client_config is not None:
            ClientProperties.load(Path(options.client_config).expanduser())
    except UsageError as error:
        raise UsageError(f'cell "{name}": {error}') from None
    assert options.seed is not None
    cell = Cell(
        name=name,
        workload=_workload(options),
        client=options.client if options.pipeline is None else OWN_CLIENT,
        nemesis=_nemesis(options),
        kafka=kafka_version_of(options),
        seed=options.seed,
        options=to_toml(options),
        command=command_line(options),
        more=_more(row, options) | ({"repeat": str(row.repeat)} if row.repeat is not None else {}),
        slug=slug_of(n, name),
    )
    return cell, options


def resume(stored: Suite, file: Path | None, request: SuiteRequest) -> SuitePlan:
    """Plan the remaining runs of a suite.

    Args:
        stored: The record of the suite.
        file: The suite file, whose cells must be those of the record; None: use the options of the record.

    Raises:
        UsageError: A secret is missing, or the file has changed.
    """
    judge = request.judge or stored.judge
    if file is None:
        options = _stored_options(stored)
        return SuitePlan(
            structs.replace(stored, judge=judge), options, outcome.read(stored.known, stored.expected)
        )
    sets = [*([stored.sets] if stored.sets else []), *request.sets]
    if missing := set_options(sets).missing_secrets:
        raise UsageError(
            f"this suite began with a secret in --set {missing[0]}, which is not stored: set it again"
        )
    plan = load(file, replace(request, seed=stored.seed, name=stored.name, judge=judge, sets=sets))
    if changed := next(_changes(stored.cells, plan.suite.cells), ""):
        secret = any(from_toml(cell.options).missing_secrets for cell in stored.cells)
        old = (
            ""
            if secret
            else ", or continue with the old cells: `fencepost suite --resume FOLDER` without the file"
        )
        raise UsageError(
            f"{file} or --set has changed since the suite began: {changed}; begin a new suite{old}"
        )
    suite = structs.replace(stored, judge=judge, known=plan.suite.known, expected=plan.suite.expected)
    return replace(plan, suite=suite)


def _stored_options(stored: Suite) -> dict[str, Options]:
    options = {}
    for cell in stored.cells:
        try:
            options[cell.name] = from_toml(cell.options).validated(registry.known_names())
        except UsageError as error:
            raise UsageError(
                f'cell "{cell.name}": {error} (name the suite file as well: `fencepost suite FILE '
                "--resume FOLDER`)"
            ) from None
    return options


def _changes(before: Sequence[Cell], now: Sequence[Cell]) -> Iterator[str]:
    """The differences of two plans, in words."""
    old, new = ({cell.name: cell.options for cell in cells} for cells in (before, now))
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f'there is no cell "{name}" any more'
        elif name not in old:
            yield f'the cell "{name}" is new'
        else:
            for key in dict.fromkeys((*old[name], *new[name])):
                was, is_now = (nemesis_text(key, options[name].get(key)) for options in (old, new))
                if was != is_now:
                    texts = [on_one_line(str(value)) for value in (was, is_now)]
                    yield f'{key} of the cell "{name}" was {texts[0]}, and is {texts[1]} now'
