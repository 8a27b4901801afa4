"""What the tables of one run can hold, by the footers of their files: no other run, and which places at most."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

TPS = ("tp", "log_tp")
"""Columns with numbers of partitions, wherever they stand, in lists of structs too."""
OFFSETS = ("offset", "log_offset", "base_offset", "last_offset", "first", "next")
"""Columns with offsets of records, by which rows are grouped; by what was committed none are."""
PLACED = ("batches", "claims", "expected", "offsets", "polls", "records", "sends")
"""The tables that name places of records, by which rows are grouped."""


@dataclass(frozen=True)
class Extent:
    """Of a run of which nothing but its own rows stands in its tables."""

    run: int
    tps: (
        tuple[int, int] | None
    )  # the least and the greatest number of a partition; None: some file does not say
    offsets: tuple[int, int] | None  # the same of offsets


def extent(run: int, recorded: Iterable[tuple[str, pq.FileMetaData]]) -> Extent | None:
    """Of the run whose tables these are, by table and file. None: rows of another run may be there, or without one."""
    found: dict[str, list[int | None]] = {"tps": [0], "offsets": [0]}
    for table, metadata in recorded:
        for name, numbers, missing in _columns(metadata):
            if name == "run" and (missing or set(numbers) != {run}):
                return None
            if table in PLACED and name != "run":
                found["tps" if name in TPS else "offsets"].extend(numbers)
    return Extent(run, _ends(found["tps"]), _ends(found["offsets"]))


def _ends(numbers: list[int | None]) -> tuple[int, int] | None:
    known = [one for one in numbers if one is not None]
    return (min(known), max(known)) if len(known) == len(numbers) else None


def _columns(metadata: pq.FileMetaData) -> Iterator[tuple[str, tuple[int | None, ...], bool]]:
    """Of each part of a file that has rows, column by column: the last of its names; the least and the greatest of its
    numbers, None for what nobody says, nothing where all are null; and whether a null may be among them.
    """
    for number in range(metadata.num_row_groups):
        part = metadata.row_group(number)
        for at in range(part.num_columns if part.num_rows else 0):
            column = part.column(at)
            name = column.path_in_schema.split(".")[-1]
            if name in ("run", *TPS, *OFFSETS):
                said = column.statistics
                if said is None:
                    yield name, (None, None), True
                elif said.has_min_max:
                    yield name, (said.min, said.max), not said.has_null_count or said.null_count > 0
                else:
                    yield name, (None, None) if said.num_values else (), True
