"""Expand the tables of a suite file into rows. A row holds the options of one cell."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from harness.common.errors import UsageError
from harness.common.wording import on_one_line
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
