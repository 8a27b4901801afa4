"""Every row of a right history, removed, doubled or replaced by the next one: the run is never invalid.

As well, each final reader leaves out one partition, or stops after each of its offsets, as one that was killed does.
The rows are altered as a fault of the recorder would alter them: no other table knows it. A run whose evidence
contradicts itself, or lacks a row, must be unknown, because nothing is proved. All altered histories are checked in one
Spark job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.checking.stored_runs import StoredRun, check_runs
from harness.record.schema import HISTORY, LOG
from harness.results.verdict import CheckResult
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import RC, Row, write_store

GONE, TWICE, REPLACED = "gone", "twice", "replaced by the next"
DIFFERENT_REPLICAS = "replica-divergence"
"""Replicas of which one lacks a batch do differ."""


def right() -> History:
    """Two committed transactions, an aborted one and one whose client does not know its end; an observer."""
    h = History(expects="xy", ordered=True)
    h.alter("partitions", lambda row: row | {"compacted": False})  # the log cleaner does not run
    h.followers = 1
    h.op("w", "init", transactional_id="id-w")
    h.feed(4)
    h.transact(0, 1, to="xy", key="k")
    h.transact(2, to="xy", key="k", outcome="fail")
    h.transact(2, to="xy", key="k")
    h.transact(3, to="xy", key="j", outcome="info", fate="commit")
    for topic in "xy":
        for at, fate in enumerate(h.fates(topic)):
            if fate == "commit":
                h.observe(topic, at)
    return h


@dataclass(frozen=True)
class Altered:
    """The tables of a right history with one row altered."""

    table: str
    row: int
    how: str

    def tables(self, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
        own = rows[self.table]
        here = {GONE: [], TWICE: [own[self.row]] * 2, REPLACED: own[self.row + 1 : self.row + 2]}[self.how]
        changed = [*own[: self.row], *here, *own[self.row + 1 :]]
        return {**rows, self.table: changed}

    def __str__(self) -> str:
        return f"{self.table} row {self.row} {self.how}"


@dataclass(frozen=True)
class Unread:
    """The tables of a right history whose final reader of one level did not come to the end of one partition."""

    tp: int
    isolation: str
    next: int | None  # the offset at which it stopped; None: it did not read the partition at all
    table = "ends"

    def tables(self, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
        def is_lost(row: Row) -> bool:
            return row["tp"] == self.tp and row["offset"] >= (self.next or 0)

        changed = dict(rows)
        committed = self.isolation == RC
        read = [row for row in rows["polls"] if row["role"] == "final"] if committed else rows["records"]
        kept = [row for row in read if not is_lost(row)]
        if committed:
            kept = [{**row, "n": n} for n, row in enumerate(kept)]
            changed["polls"] = [row for row in rows["polls"] if row["role"] != "final"] + kept
            polls = len(changed["polls"]) - len(rows["polls"])
            changed["journals"] = [
                {**row, "polls": row["polls"] + polls} if row["journal"] == "z" else row
                for row in rows["journals"]
            ]
        else:
            changed["records"] = kept
            changed["expected"] = [row for row in rows["expected"] if not is_lost(row)]
        count = sum(row["tp"] == self.tp for row in kept)
        expected = sum(row["tp"] == self.tp for row in changed["expected"])
        changed["ends"] = [
            row if (row["tp"], row["isolation"], row["role"]) != (self.tp, self.isolation, "final") else end
            for row in rows["ends"]
            for end in [
                {
                    **row,
                    "next": self.next,
                    "read": count,
                    "sentinel_offset": None,
                    "expected": None if row["expected"] is None else expected,
                }
            ]
            if (row["tp"], row["isolation"]) != (self.tp, self.isolation) or self.next is not None
        ]
        return changed

    def __str__(self) -> str:
        return f"final {self.isolation} read of partition {self.tp} up to {self.next}"


def unread(rows: Mapping[str, list[Row]]) -> Iterator[Unread]:
    for end in rows["ends"]:
        for upto in (None, *range(end["next"])):
            yield Unread(end["tp"], end["isolation"], upto)


def alterations(rows: Mapping[str, list[Row]]) -> Iterator[Altered]:
    for table in (*HISTORY, *LOG):
        for row in range(len(rows[table])):
            yield Altered(table, row, GONE)
            yield Altered(table, row, TWICE)
            if row + 1 < len(rows[table]):
                yield Altered(table, row, REPLACED)


class Written:
    """Tables of one run, as `write_store` takes them."""

    def __init__(self, rows: Mapping[str, list[Row]]) -> None:
        self._rows = rows

    def tables(self, run: int) -> dict[str, list[Row]]:
        return {table: [{**row, "run": run} for row in rows] for table, rows in self._rows.items()}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    return right().built


@pytest.fixture(scope="module")
def results(
    spark: SparkSession, rows: dict[str, list[Row]], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Any, CheckResult]:
    """The result of each altered history, and of the right one (None)."""
    altered: list[Altered | Unread | None] = [None, *alterations(rows), *unread(rows)]
    folder: Path = tmp_path_factory.mktemp("altered")
    runs = [
        (number, Written(rows if one is None else one.tables(rows))) for number, one in enumerate(altered)
    ]
    write_store(folder, runs, log=True)  # type: ignore[arg-type]
    stored = [StoredRun(number, folder, WALL_MS, had_log=True, healed=True) for number, _ in runs]
    found = check_runs(spark, stored)
    return {one: found[number] for number, one in enumerate(altered)}


def test_the_right_history_is_valid(results: Mapping[Any, CheckResult]) -> None:
    assert not results[None].anomalies
    assert not results[None].broken


@pytest.mark.parametrize("table", [*HISTORY, *LOG])
def test_no_altered_row_makes_a_run_invalid(table: str, results: Mapping[Any, CheckResult]) -> None:
    accused = {
        str(one): [
            name
            for name, finding in result.anomalies.items()
            if not finding.allowed and (table, name) != ("batches", DIFFERENT_REPLICAS)
        ]
        for one, result in results.items()
        if one is not None and one.table == table
    }
    assert not {one: names for one, names in accused.items() if names}


@pytest.mark.parametrize("table", [*HISTORY, *LOG])
def test_every_altered_row_is_noticed(table: str, results: Mapping[Any, CheckResult]) -> None:
    unnoticed = [
        str(one)
        for one, result in results.items()
        if one is not None and one.table == table and not result.broken and not result.anomalies
    ]
    assert not unnoticed
