"""From a suite file to a suite: its cells settled as runs, each tried before anything starts."""

import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from fencepost import registry
from fencepost.clusters import kafka_of
from fencepost.planning import draw
from fencepost.suites import foreseen as failures
from fencepost.suites.foreseen import Foreseen
from fencepost.suites.matrix import DRAWN, Row, differing, matches, rows, shown_set, told
from harness.clients.client_properties import ClientProperties
from harness.errors import UsageError
from harness.names import on_one_line, unknown
from harness.secrets import REDACTED
from harness.settings.clusters import check_given
from harness.settings.command_line import command_line
from harness.settings.options import Options, to_toml
from harness.suite import Cell, Suite

TABLES = ("suite", "defaults", "matrix", "include", "exclude", "known", "expected")
OPTIONAL = "optional"
"""Of an `[[exclude]]`: it may be about no cell."""
LISTS = ("include", "exclude", "known", "expected")
SETTINGS = ("name", "seed", "judge")
JUDGES = ("together", "each")
SEED_BITS = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OWN_CLIENT = "its own client"
"""Of a pipeline whose programs are not ours."""
_ALWAYS = ("workload", "pipeline", "client", "nemesis")
"""What every cell's name begins with, so that the name stays when another axis is added."""


@dataclass(frozen=True)
class Planned:
    """A suite that can begin or go on. `options`: of each cell, by its name, secrets as well."""

    suite: Suite
    options: Mapping[str, Options]
    foreseen: Foreseen


@dataclass(frozen=True)
class Asked:
    """What the command line says of a suite."""

    settle: Callable[[Options], Options]  # what `fencepost run` does with its options; raises `UsageError`
    seed: int | None = None
    judge: str | None = None
    name: str | None = None  # in the place of the suite's
    sets: Sequence[Mapping[str, Any]] = ()  # options by key, each in the place of the one in `[defaults]`


def load(path: Path, asked: Asked) -> Planned:
    """Read a suite file. Raises `UsageError` in one sentence, which names the file and the cell."""
    document = _document(path)
    try:
        return _plan(str(path), document, asked)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no TOML: {on_one_line(str(error))}") from error


def _plan(file: str, document: Mapping[str, Any], asked: Asked) -> Planned:
    for name, table in document.items():
        if name not in TABLES:
            raise UsageError(unknown("table", name, TABLES))
        wanted = "a list of tables, [[...]]" if name in LISTS else "a table, [...]"
        fits = (
            isinstance(table, list) and all(isinstance(one, dict) for one in table)
            if name in LISTS
            else isinstance(table, dict)
        )
        if not fits:
            raise UsageError(f"{name} must be {wanted}")
    name, seed, judge = _settings(file, document.get("suite", {}), asked)
    planned = _settled(seed, document, asked)
    cells = [cell for cell, _ in planned]
    if not cells:
        raise UsageError("it has no cell: name workloads in [matrix], or a cell in [[include]]")
    foreseen = failures.read(document.get("known", []), document.get("expected", []), registry.anomalies())
    failures.require_clear(foreseen, cells)
    suite = Suite(
        name=name,
        file=file,
        seed=seed,
        judge=judge,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        cells=cells,
        known=[one.as_json() for one in foreseen.known],
        expected=[one.as_json() for one in foreseen.expected],
        sets=shown_set(asked.sets),
    )
    return Planned(suite, {cell.name: options for cell, options in planned}, foreseen)


def _settings(file: str, table: Mapping[str, Any], asked: Asked) -> tuple[str, int, str]:
    """Name, seed and judge."""
    for key in table:
        if key not in SETTINGS:
            raise UsageError(f"suite: {unknown('key', key, SETTINGS)}")
    name = table.get("name", Path(file).stem) if asked.name is None else asked.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "latest":
        raise UsageError(
            "suite: name must be up to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit, and "
            f"not latest; it is {name!r}"
        )
    seed = table.get("seed", secrets.randbelow(2**SEED_BITS)) if asked.seed is None else asked.seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UsageError(f"suite: seed must be a whole number from 0 to {2**63 - 1}, not {seed!r}")
    judge = asked.judge or table.get("judge", JUDGES[0])
    if judge not in JUDGES:
        raise UsageError(f"suite: judge must be {' or '.join(JUDGES)}, not {judge!r}")
    return name, seed, judge


def _settled(seed: int, document: Mapping[str, Any], asked: Asked) -> list[tuple[Cell, Options]]:
    """The cells, each with its options."""
    found: dict[str, tuple[Cell, Options]] = {}
    used: set[int] = set()
    exclude, optional = _excluded(document.get("exclude", []))
    tables = (document.get("defaults", {}), document.get("matrix", {}), document.get("include", []))
    made = rows(*tables, asked.sets)
    for n, row in enumerate(made, 1):
        values = dict(row.values)
        if values.get("nemesis") == DRAWN:
            values.pop("nemesis")
        written = Options().updated(values)
        check_given(written.cluster, values)
        name = _named(row, written)
        actual = {**to_toml(written), "nemesis": told("nemesis", written.nemesis)}
        out = [k for k, table in enumerate(exclude) if matches(f"exclude {k + 1}", table, actual)]
        used.update(out)
        if out:
            continue
        if name in found:
            raise UsageError(f'two cells are called "{name}": let them differ in an option')
        found[name] = _cell(n, seed, name, row, written, asked)
    for k in range(len(exclude)):
        if k not in used and not optional[k]:
            raise UsageError(f"exclude {k + 1} is about no cell of this suite: correct it, or remove it")
    return list(found.values())


def _excluded(tables: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[bool]]:
    """What is left out, and of each whether it may be about no cell, as where `--set` chooses another version."""
    optional = [table.get(OPTIONAL, False) for table in tables]
    for n, one in enumerate(optional, 1):
        if not isinstance(one, bool):
            raise UsageError(f"exclude {n}: {OPTIONAL} must be true or false, not {one!r}")
    left = [{key: value for key, value in table.items() if key != OPTIONAL} for table in tables]
    for n, table in enumerate(left, 1):
        _require_names(f"exclude {n}", table)
    return left, optional


def _require_names(where: str, table: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a name that nothing has: it would be about no cell, and nobody would be told."""
    for key in ("workload", "client", "kafka", "defect"):
        values = table.get(key, [])
        for value in values if isinstance(values, list) else [values]:
            try:
                Options().updated({key: value}).validated(registry.known())
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None


def _named(row: Row, options: Options) -> str:
    """What the cell is called, in this suite and the next: what it runs, then whatever else sets it apart."""
    ours = [options.client] if options.pipeline is None else []
    words = [_what(options), *ours, told("nemesis", options.nemesis)]
    words += [f"{key}={value}" for key, value in _more(row, options).items()]
    words += [f"#{row.repeat}"] if row.repeat is not None else []
    return on_one_line(" ".join(words))


def _what(options: Options) -> str:
    """What the cell runs: a workload, or the file of a pipeline."""
    return options.workload if options.pipeline is None else str(Path(options.pipeline).with_suffix(""))


def _more(row: Row, options: Options) -> dict[str, str]:
    """What else sets a cell apart; of a secret the placeholder, for names are stored and shown."""
    stored = {key: _word(value) for key, value in to_toml(options).items()}
    told = {key: _word(value) for key, value in differing(row) if key not in _ALWAYS}
    return {key: stored[key] if REDACTED in stored.get(key, "") else word for key, word in told.items()}


def _word(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={setting}" for name, setting in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(n: int, seed: int, name: str, row: Row, written: Options, asked: Asked) -> tuple[Cell, Options]:
    """One cell; raises `UsageError`, which names it, if it could not be run."""
    seeded = written if written.seed is not None else replace(written, seed=_seed(seed, name))
    try:
        options = asked.settle(seeded)
        draw(options, registry.pipeline_of(options))
        if options.client_config is not None:
            ClientProperties.load(Path(options.client_config).expanduser())
    except UsageError as error:
        raise UsageError(f'cell "{name}": {error}') from None
    assert options.seed is not None
    shown = to_toml(options)
    cell = Cell(
        name=name,
        workload=_what(options),
        client=options.client if options.pipeline is None else OWN_CLIENT,
        nemesis=told("nemesis", options.nemesis),
        kafka=kafka_of(options),
        seed=options.seed,
        options=shown,
        command=command_line(options),
        more=_more(row, options) | ({"repeat": str(row.repeat)} if row.repeat is not None else {}),
        slug=_slug(n, name),
    )
    return cell, options


def _seed(seed: int, name: str) -> int:
    return Random(f"{seed}/{name}").randrange(2**SEED_BITS)


def _slug(n: int, name: str) -> str:
    """Of the cell's folder: its number among the cells, and as much of its name as a folder's may have."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).replace("=", "-").strip("-.")
    return f"{n:03}-{plain}"[:64].rstrip("-.")
