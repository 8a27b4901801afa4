"""Count the operations of external histories by kind, and look up single operations."""

from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.external.table import Batches, BatchFunction, HistoryTable
from harness.history_files import schema
from harness.history_files.schema import OK, OUTCOMES
from harness.model.vocabulary import Isolation

EFFECTIVE = pa.array(schema.EFFECTIVE)
ASSIGNS = pa.array(["assign", "subscribe"])
KNOWN = pa.array(schema.KNOWN)
Numbers = dict[int, Counter[str]]
COUNTED = ("run", "outcome", "f", "isolation", "rebalanced")
"""The columns that are counted."""
COUNTS = pa.schema(
    [
        (name, pa.int64())
        for name in (
            "run",
            "ops",
            *OUTCOMES,
            "committed",
            "aborted",
            "subscribes",
            "turns",
            "uncommitted",
            "passed_over",
        )
    ]
)
"""By run. `turns`: operations that can change the keys of a process; `uncommitted`: operations that read uncommitted
records; `passed_over`: operations of unknown kinds.
"""


KINDS = pa.schema([("run", pa.int64()), ("f", pa.string()), ("many", pa.int64())])
MOST_KINDS = 10_000


def count_operations(ops: HistoryTable) -> Numbers:
    """Return by run the counts of `COUNTS`."""
    numbers: Numbers = {}
    for row in ops.collect(_count, COUNTS, COUNTED).to_pylist():
        numbers.setdefault(row.pop("run"), Counter()).update(row)
    return numbers


def kinds_passed_over(ops: HistoryTable, runs: Set[int]) -> dict[int, Counter[str]]:
    """Return by run the unknown kinds (`f`) of operations, and how many there are of each.

    Only the MOST_KINDS most frequent kinds of each batch are counted.
    """
    kinds: dict[int, Counter[str]] = {run: Counter() for run in runs}
    if runs:
        for row in ops.collect(_kinds(sorted(runs)), KINDS, ("run", "f")).to_pylist():
            kinds[row["run"]][row["f"]] += row["many"]
    return kinds


def _kinds(runs: list[int]) -> BatchFunction:
    wanted = pa.array(runs, pa.int64())

    def counted(batches: Batches) -> Batches:
        for rows in batches:
            unknown = pc.and_(pc.is_in(rows["run"], wanted), pc.invert(pc.is_in(rows["f"], KNOWN)))
            kinds = (
                pa.Table.from_batches([rows.filter(unknown)])
                .group_by(["run", "f"])
                .aggregate([([], "count_all")])
            )
            most_frequent = kinds.sort_by([("count_all", "descending")]).slice(0, MOST_KINDS)
            yield from (
                most_frequent.select(["run", "f", "count_all"])
                .rename_columns(KINDS.names)
                .cast(KINDS)
                .to_batches()
            )

    return counted


def any_run_has(numbers: Numbers, kind: str) -> bool:
    """Return whether any run has an operation of this kind."""
    return any(counts[kind] for counts in numbers.values())


def _count(batches: Batches) -> Batches:
    """Yield several rows for each run."""
    for rows in batches:
        runs, at = np.unique(rows["run"].to_numpy(), return_inverse=True)
        outcome, f = rows["outcome"].to_numpy(zero_copy_only=False), rows["f"]
        effective = is_true(pc.is_in(f, EFFECTIVE))
        kinds = {
            "ops": np.ones(len(rows), bool),
            **{name: outcome == code for code, name in enumerate(OUTCOMES)},
            "committed": (outcome == OK) & effective,
            "aborted": (outcome == OUTCOMES.index("fail")) & effective,
            "subscribes": is_true(pc.equal(f, "subscribe")),
            "turns": turns(rows),
            "uncommitted": is_true(pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)),
            "passed_over": ~is_true(pc.is_in(f, KNOWN)),
        }
        counts = (np.bincount(at[matches], minlength=len(runs)) for matches in kinds.values())
        yield pa.RecordBatch.from_arrays([pa.array(runs), *map(pa.array, counts)], ["run", *kinds])


def turns(rows: pa.RecordBatch) -> np.ndarray:
    """Return for each row whether it can change the keys of a process, or saw a rebalance."""
    moved = pc.greater(pc.list_value_length(rows["rebalanced"]), 0)
    return is_true(pc.or_kleene(pc.is_in(rows["f"], ASSIGNS), moved))


def uncommitted(batches: Batches) -> Batches:
    """Yield run and op of the operations that read uncommitted records."""
    for rows in batches:
        reads_uncommitted = pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)
        yield rows.filter(pc.fill_null(reads_uncommitted, False)).select(["run", "op"])


def lookup(
    table: HistoryTable, form: pa.Schema, key: str, wanted: Set[tuple[int, int]]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the rows with a wanted run and key, by (run, key). One row is returned if several match."""
    if not wanted:
        return {}
    rows = table.collect(_choose(key, wanted), form, form.names).to_pylist()
    return {(row["run"], row[key]): row for row in rows}


def _choose(key: str, wanted: Set[tuple[int, int]]) -> BatchFunction:
    numbers = pa.array(sorted({number for _, number in wanted}), pa.int64())

    def choose(batches: Batches) -> Batches:
        for rows in batches:
            rows_with_number = rows.filter(pc.is_in(rows[key], numbers))
            matches = [
                pair in wanted
                for pair in zip(
                    rows_with_number["run"].to_pylist(), rows_with_number[key].to_pylist(), strict=True
                )
            ]
            yield rows_with_number.filter(pa.array(matches, pa.bool_()))

    return choose


def is_true(condition: pa.Array) -> np.ndarray:
    """Return the condition as numpy booleans; null is false."""
    return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False))
