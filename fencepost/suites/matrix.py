"""From a suite file's tables to its rows: each is the options that one cell sets, in words and values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from harness.errors import UsageError
from harness.names import on_one_line
from harness.settings.options import FIELDS, Options, key_of, to_toml

DRAWN = "drawn"
"""What a suite file says of `nemesis` where the seed draws the faults: TOML has no null."""
SEEDS = "seeds"
MOST_CELLS = 10_000
NOT_OF_A_CELL = {
    "store": "say it on the command line, with --store",
    "name": "each run is named for its cell",
    "master": "all cells have one judge: say it on the command line, with --master",
    "spark-conf": "all cells have one judge: say it on the command line, with --spark-conf",
    "first-port": "runs side by side choose free ports",
}
"""Options that no cell has of its own, and why."""


@dataclass(frozen=True)
class Row:
    """One cell before it is settled. `own`: what sets it apart, from `[matrix]` and `[[include]]`."""

    values: Mapping[str, Any]  # by key, `[defaults]` as well
    own: Mapping[str, Any] = field(default_factory=dict)
    repeat: int | None = None  # which of several with the same options; None: there is one


def rows(
    defaults: Mapping[str, Any],
    matrix: Mapping[str, Any],
    include: Sequence[Mapping[str, Any]],
    sets: Sequence[Mapping[str, Any]] = (),
) -> list[Row]:
    """All cells, the matrix's first. `sets`: in the place of `[defaults]`, a later one wins. Raises `UsageError`."""
    common = _keyed("defaults", defaults)
    set_now = [_keyed("--set", one) for one in sets]
    if any("seed" in one for one in set_now):
        raise UsageError("a suite draws each run's seed from its own: use --seed, not --set seed")
    for values in set_now:
        common.update({key: _merged(common.get(key), told(key, value)) for key, value in values.items()})
    taken = {key for values in set_now for key in values}
    tables = [
        *([("matrix", matrix)] if matrix else []),
        *((f"include {n}", t) for n, t in enumerate(include, 1)),
    ]
    return [row for where, table in tables for row in _product(where, common, table, taken)]


def set_now(sets: Sequence[Mapping[str, Any]]) -> Options:
    """The options of `--set` and nothing else; a later one wins."""
    options = Options()
    for values in sets:
        options = options.updated(values)
    return options


def shown_set(sets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `--set` said, without secrets."""
    keys = {key_of(written) for values in sets for written in values}
    return {key: value for key, value in to_toml(set_now(sets)).items() if key in keys}


def _merged(before: object, value: Any) -> Any:
    """The new value; of a table, as `broker`, its entries beside those that are there."""
    return {**before, **value} if isinstance(before, Mapping) and isinstance(value, Mapping) else value


def _product(
    where: str, common: Mapping[str, Any], table: Mapping[str, Any], taken: Collection[str]
) -> list[Row]:
    """Lists multiply; what is no list is the same in each. `taken`: the keys of `--set`."""
    repeats = _repeats(where, table.get(SEEDS, 1))
    axes = {
        key: _axis(where, key, value)
        for key, value in _keyed(where, {k: v for k, v in table.items() if k != SEEDS}).items()
    }
    if twice := next((key for key in axes if key in taken), None):
        raise UsageError(
            f"{twice} is set twice, by --set and by {where}: leave --set {twice} out, or change the file"
        )
    if repeats > 1 and "seed" in axes:
        raise UsageError(f"{where}: seed lists the seeds, and seeds says how many to draw: say one of them")
    count = repeats
    for values in axes.values():
        count *= len(values)
    if count > MOST_CELLS:
        raise UsageError(f"{where} has {count:,} cells: a suite has {MOST_CELLS:,} at most")
    made = []
    for chosen in product(*axes.values()):
        own = dict(zip(axes, chosen, strict=True))
        made += [
            Row({**common, **own}, own, repeat if repeats > 1 else None) for repeat in range(1, repeats + 1)
        ]
    return made


def _repeats(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise UsageError(f"{where}: {SEEDS} must be a whole number from 1 to 1000, not {_shown(value)}")
    return value


def _keyed(where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """By key; raises `UsageError` for what is no option, or none of a cell."""
    found = {}
    for written, value in table.items():
        try:
            key = key_of(written)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        if key in NOT_OF_A_CELL:
            raise UsageError(f"{where}: a cell has no {key} of its own: {NOT_OF_A_CELL[key]}")
        if key in found:
            raise UsageError(f"{where}: {key} is there twice")
        found[key] = value
    return found


def _axis(where: str, key: str, value: object) -> Sequence[Any]:
    """The values that a key takes in turn."""
    if not isinstance(value, list):
        return [value]
    if not value:
        raise UsageError(f"{where}: {key} lists nothing: name at least one value")
    return value


def differing(row: Row) -> Iterator[tuple[str, Any]]:
    """What sets the row apart, in the order of the options."""
    yield from ((key, row.own[key]) for key in FIELDS if key in row.own)


def matches(where: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Whether a cell has all that a table asks for; a list asks for one of several.

    `actual`: by key, the cell's settled options. Raises `UsageError` for an unknown key.
    """
    for key, value in _keyed(where, wanted).items():
        choices = value if isinstance(value, list) else [value]
        if all(_plain(key, choice) != actual.get(key) for choice in choices):
            return False
    return True


def _plain(key: str, value: Any) -> Any:
    """A value as `told` has it."""
    return told(key, value) if key == "nemesis" else value


def told(key: str, value: Any) -> Any:
    """A value as people write it: faults with commas between them, and `drawn` for none named."""
    if key == "nemesis":
        return DRAWN if value is None else value if isinstance(value, str) else ",".join(value)
    return value


def _shown(value: object) -> str:
    return on_one_line(str(value))
