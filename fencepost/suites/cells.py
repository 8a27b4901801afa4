"""The cells of a suite: how the tables of its file become cells, and the process that carries out one.

The request of the process is JSON on standard input, so that no secret is on a command line. The output is the log of
the cell.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from fencepost.exploration.explorer import client_name, command_of, explore
from fencepost.exploration.space import BY_DEFAULT, PROGRAMS, Scope, scope_of
from harness.cluster.kinds.registry import kafka_version_of
from harness.common.documents import decode as decode_document
from harness.common.documents import encode as encode_document
from harness.common.errors import ExitStatus, FencepostError, UsageError
from harness.common.progress import LineProgress, Progress
from harness.common.toml_tables import Text, WrongTable, convert_table
from harness.common.wording import on_one_line, redact_text
from harness.environment.versions import DEFAULT_KAFKA
from harness.processes.messages import DecodeError, ProcessMessage, decode, encode
from harness.results.suite import Cell
from harness.settings.kinds import Duration
from harness.settings.options import Options, key_of, to_toml

DRAWN = "drawn"
"""The value of `nemesis` where the seed draws the faults, because TOML has no null."""
SEEDS = "seeds"
MOST_CELLS = 10_000
NOT_CELL_OPTIONS = {
    "store": "set it on the command line, with --store",
    "name": "the name of a run is that of its cell",
    "master": "one Spark checks all cells: set it on the command line, with --master",
    "spark-conf": "one Spark checks all cells: set it on the command line, with --spark-conf",
    "first-port": "runs side by side choose free ports",
}
"""Options that a suite file cannot set, and why."""
AT_ONCE = 16


@dataclass(frozen=True)
class MatrixRow:
    """The options of one cell by key, before they are validated."""

    values: Mapping[str, Any]  # including those of `[defaults]`
    own: Mapping[str, Any] = field(default_factory=dict)  # without those of `[defaults]`
    repeat: int | None = None  # counted from 1; None: no other row has the same options


def rows(
    defaults: Mapping[str, Any],
    matrix: Mapping[str, Any],
    include: Sequence[Mapping[str, Any]],
    sets: Sequence[Mapping[str, Any]] = (),
) -> list[MatrixRow]:
    """Expand `[matrix]` first, then each `[[include]]`.

    Args:
        sets: The options of each `--set`. They replace those of `[defaults]`; a later one wins.

    Raises:
        UsageError: A table has an unknown option, an empty list, or too many cells.
    """
    common = _by_key("defaults", defaults)
    replacements = [_by_key("--set", assignment) for assignment in sets]
    if any("seed" in values for values in replacements):
        raise UsageError(
            "a suite draws the seed of each run from the seed of the suite: use --seed, not --set seed"
        )
    for values in replacements:
        common.update({key: _merge(common.get(key), nemesis_text(key, v)) for key, v in values.items()})
    set_keys = {key for values in replacements for key in values}
    tables = [("matrix", matrix)] if matrix else []
    tables += [(f"include {n}", table) for n, table in enumerate(include, 1)]
    return [row for where, table in tables for row in _expand(where, common, table, set_keys)]


def slug_of(n: int, name: str) -> str:
    """The name of the folder of the n-th cell."""
    slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).replace("=", "-").strip("-.")
    return f"{n:03}-{slug}"[:64].rstrip("-.")


def set_options(sets: Sequence[Mapping[str, Any]]) -> Options:
    """The options of all `--set`; a later one wins."""
    options = Options()
    for values in sets:
        options = options.updated(values)
    return options


def sets_as_toml(sets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The options of all `--set` as `suite.json` stores them, without secrets."""
    keys = {key_of(name) for values in sets for name in values}
    return {key: value for key, value in to_toml(set_options(sets)).items() if key in keys}


def _merge(old: object, new: Any) -> Any:
    """The new value. The entries of a table, for instance of `broker`, are added to the old entries."""
    return {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else new


def _expand(
    where: str, common: Mapping[str, Any], table: Mapping[str, Any], set_keys: Collection[str]
) -> list[MatrixRow]:
    """Make a row for each combination of the values in lists. A value that is not in a list is part of every row."""
    repeats = table.get(SEEDS, 1)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= 1000:
        raise UsageError(
            f"{where}: {SEEDS} must be a whole number from 1 to 1000, not {on_one_line(str(repeats))}"
        )
    options = _by_key(where, {key: value for key, value in table.items() if key != SEEDS})
    axes = {key: _as_list(value) for key, value in options.items()}
    for key, axis in axes.items():
        if not axis:
            raise UsageError(f"{where}: {key} is an empty list: name at least one value")
        if key in set_keys:
            raise UsageError(
                f"{key} is set twice, by --set and by {where}: leave out --set {key}, or change the file"
            )
    if repeats > 1 and "seed" in axes:
        raise UsageError(
            f"{where}: seed lists the seeds, and seeds says how many to draw: remove one of them"
        )
    count = repeats * prod(map(len, axes.values()))
    if count > MOST_CELLS:
        raise UsageError(f"{where} has {count:,} cells: a suite has {MOST_CELLS:,} at most")
    return [
        MatrixRow(
            {**common, **(own := dict(zip(axes, combination, strict=True)))},
            own,
            repeat if repeats > 1 else None,
        )
        for combination in product(*axes.values())
        for repeat in range(1, repeats + 1)
    ]


def _by_key(where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the key of their option. Raises `UsageError` for a key that is not an option of a cell."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        try:
            key = key_of(name)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        if key in NOT_CELL_OPTIONS:
            raise UsageError(f"{where}: {key} cannot be set for a cell: {NOT_CELL_OPTIONS[key]}")
        if key in values:
            raise UsageError(f"{where}: {key} is set twice: remove one of them")
        values[key] = value
    return values


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def matches(where: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Return True if a cell has every option of a table. A list in the table matches any of its values.

    Args:
        where: The table, for messages.
        actual: The options of the cell by key; `nemesis` as `nemesis_text` returns it.

    Raises:
        UsageError: The table has an unknown key.
    """
    return all(
        any(nemesis_text(key, choice) == actual.get(key) for choice in _as_list(value))
        for key, value in _by_key(where, expected).items()
    )


def nemesis_text(key: str, value: Any) -> Any:
    """A value of `nemesis` as text: faults joined by commas, or `drawn`. Other options stay as they are."""
    if key != "nemesis":
        return value
    return DRAWN if value is None else value if isinstance(value, str) else ",".join(value)


@dataclass(frozen=True)
class ExploreTable:
    """One table `[[explore]]`: the options of `fencepost explore`."""

    client: Text = "librdkafka"
    driver: Text | None = None
    programs: tuple[Text, ...] = PROGRAMS
    kinds: tuple[Text, ...] = tuple(map(str, BY_DEFAULT))
    errors: Literal["class", "all"] = "class"
    members: bool = False
    pairs: bool = False
    brokers: Annotated[int, Meta(ge=1, le=7)] = 1
    limit: Text = "12m"
    kafka: Text = DEFAULT_KAFKA
    transaction_version: Annotated[int, Meta(ge=0, le=2)] | None = None


def plan_exploration(
    n: int,
    table: Mapping[str, Any],
    sets: Sequence[Mapping[str, Any]],
    settle: Callable[[Options], Options],
) -> tuple[Cell, Options]:
    """Return the n-th cell of a suite, which explores a client, and its options. Raises `UsageError`.

    Of the options of `--set`, only `kafka` concerns it.
    """
    try:
        wanted = convert_table({key.replace("-", "_"): value for key, value in table.items()}, ExploreTable)
        scope = scope_of(
            wanted.programs,
            wanted.kinds,
            all_errors=wanted.errors == "all",
            members=wanted.members,
            pairs=wanted.pairs,
            brokers=wanted.brokers,
        )
        options = Options(
            client=wanted.client,
            driver=wanted.driver,
            kafka=wanted.kafka,
            transaction_version=wanted.transaction_version,
            workers=AT_ONCE,
            seed=0,
            time_limit_s=Duration().parse("limit", wanted.limit),
        )
        for values in sets:
            options = options.updated({key: value for key, value in values.items() if key == "kafka"})
        options = settle(options)
        client = client_name(options)
    except (UsageError, WrongTable) as error:
        raise UsageError(f"[[explore]]: {error}") from None
    named = ("client", "driver", "programs", "limit")
    more = {key: _text(value) for key, value in table.items() if key not in named}
    programs = ",".join(scope.programs)
    name = " ".join(["explore", client, programs, *(f"{key}={value}" for key, value in more.items())])
    cell = Cell(
        name=name,
        workload="explore",
        client=client,
        nemesis=programs,
        kafka=kafka_version_of(options),
        seed=0,
        options=to_toml(options),
        command=f"{command_of(options, scope, whole=True)} --limit {wanted.limit}",
        explore=encode_document(scope),
        more=more,
        slug=slug_of(n, name),
    )
    return cell, options


def _text(value: object) -> str:
    return on_one_line(",".join(map(str, value)) if isinstance(value, list) else str(value))


def carry_out_exploration(options: Options, scope: Mapping[str, Any], progress: Progress) -> None:
    """Explore in the folder that the run of the cell would have. Its verdict is in `verdict.json`."""
    folder = Path(options.store) / str(options.name) / "exploration"
    options = replace(options, store=str(folder.parent), name=None)
    explore(
        options,
        decode_document(scope, Scope),
        progress,
        limit_s=options.time_limit_s,
        again=True,
        folder=folder,
    )


class CellRequest(ProcessMessage, frozen=True):
    """The task of the process."""

    options: Options  # with secrets
    command: str  # repeats the run
    result_file: Path  # takes the `CellResult`
    judge: bool  # whether the process checks the run as well
    explore: Mapping[str, Any] = {}  # what to explore; empty: it is a run


class CellResult(ProcessMessage, frozen=True):
    """The result of the process."""

    status: int
    error: str = ""  # why the run has no evidence, or no verdict

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        part.write_bytes(encode(self))
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "CellResult | None":
        """Read the file; None if the process was killed before it wrote it."""
        try:
            return decode(cls, path.read_bytes())
        except (OSError, DecodeError):
            return None


def run_cell(request: CellRequest) -> None:
    """Start the run, and store its result."""
    from fencepost.runs.carry_out import run, run_without_verdict

    options = request.options
    with closing(LineProgress(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        try:
            if request.explore:
                carry_out_exploration(options, request.explore, progress)
            elif request.judge:
                run(options, progress, command=request.command)
            else:
                run_without_verdict(options, progress, command=request.command)
        except FencepostError as error:
            result = CellResult(error.exit_status, redact_text(str(error)))
            progress.say(result.error)
        except KeyboardInterrupt:
            result = CellResult(ExitStatus.INTERRUPTED, "the run was interrupted")
        else:
            result = CellResult(ExitStatus.VALID)
    result.save(request.result_file)


if __name__ == "__main__":
    run_cell(decode(CellRequest, sys.stdin.buffer.read()))
