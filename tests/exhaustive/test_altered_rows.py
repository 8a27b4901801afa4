"""Every row of a right history, removed, doubled or replaced by the next one: the run is never invalid.

As well, each final reader leaves out one partition, or stops after each of its offsets, as one that was killed does.
`CELLS` has an altered cell for each rule of `checkers.gaps` about one row.
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
from checkers.gaps.agreement import IMPOSSIBLE
from checkers.gaps.facts import AGREEMENTS
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


@dataclass(frozen=True, eq=False)
class Cell:
    """The tables of a right history with altered cells in one row, and a part of the sentence that follows."""

    table: str
    of: Row  # values of the row; the first row that has them is altered
    to: Row | None  # None: the row is removed
    sentence: str  # a part of it

    def tables(self, rows: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
        own = rows[self.table]
        at = next(n for n, row in enumerate(own) if all(row.get(name) == self.of[name] for name in self.of))
        here = [] if self.to is None else [own[at] | self.to]
        return {**rows, self.table: [*own[:at], *here, *own[at + 1 :]]}

    def __str__(self) -> str:
        return f"{self.table} with {self.of}: {self.to}"


X = 1
DATA = {"tp": X, "leader": True, "control": False}
MARKER = {"tp": X, "leader": True, "control": True}
OUTPUT = {"n": 0, "topic": "x", "acked": True, "output_name": "x"}
LAST = {"n": 3, "topic": "y", "acked": True}
COMMITTED = {"f": "txn", "outcome": "ok"}
SAME = "do not agree on the role or the isolation level of w"
CELLS = (
    Cell("offsets", {}, {"producer_id": 9}, "different producers, epochs or transactions"),
    Cell("offsets", {}, {"log_offset": 99}, "offset commits where the table batches has no batch"),
    Cell("offsets", {}, {"metadata": "w:9"}, "the tables offsets and ops name different operations"),
    Cell("offsets", {}, {"metadata": None}, "offset commits of which a part is missing"),
    Cell("offsets", {}, {"log_tp": 99}, "lacks partitions that the table offsets names"),
    Cell("offsets", {}, {"committed": -1}, "negative offsets"),
    Cell("transactions", {"state": "CompleteCommit"}, {"tps": [X]}, "that still have partitions"),
    Cell(
        "transactions", {"state": "PrepareCommit"}, {"tps": [X]}, "do not agree on its producer or partitions"
    ),
    Cell("transactions", {"state": "PrepareCommit"}, {"state": None}, "states of which a part is missing"),
    Cell("transactions", {}, {"log_offset": -1}, "negative offsets"),
    Cell("transactions", {}, {"log_tp": 99}, "lacks partitions that the table transactions names"),
    Cell("sends", OUTPUT, {"value": "w:9:0"}, "that their values do not name"),
    Cell("sends", OUTPUT, {"output_name": "y"}, "different inputs or output names"),
    Cell("sends", OUTPUT, {"topic": "y"}, "the tables sends and partitions name different topics"),
    Cell("sends", LAST, {"n": 7}, "the table sends lacks rows"),
    Cell("sends", OUTPUT, {"acked": False}, "acknowledged positions of records that were not acknowledged"),
    Cell("sends", OUTPUT, {"tp": None}, "offsets without a partition"),
    Cell("sends", OUTPUT, {"offset": -1}, "negative offsets"),
    Cell("sends", OUTPUT, {"op": 99}, "lacks operations of which the table sends has"),
    Cell("claims", {}, {"group": "h"}, "the tables claims and ops name different groups"),
    Cell("claims", {}, {"tp": X}, "the tables claims, partitions and stages name different topics"),
    Cell("claims", {}, {"next": -1}, "ranges that end before they begin"),
    Cell("claims", {}, {"first": -1}, "negative offsets"),
    Cell("assignments", {}, {"tp": X}, "the tables assignments, partitions and stages name different topics"),
    Cell(
        "assignments", {}, {"group": "h"}, "the tables assignments and stages name different stages or groups"
    ),
    Cell("ops", COMMITTED, {"stage": "t"}, "the tables ops and journals name different stages or groups"),
    Cell("ops", COMMITTED, {"group": "h"}, "the tables ops and stages name different stages or groups"),
    Cell("journals", {}, None, "the table journals lacks journal w, which the table ops names"),
    Cell("ops", COMMITTED, {"commit_ns": 0}, "operations whose commit began before they did"),
    Cell("ops", COMMITTED, {"return_ns": 0}, "operations that returned before their commit began"),
    Cell("ops", COMMITTED, {"return_ns": None}, "operations that ended and did not return"),
    Cell("ops", COMMITTED, {"fenced": True}, "operations that succeeded and were fenced"),
    Cell("ops", COMMITTED, {"outcome": "so-so"}, "operations with an unknown outcome"),
    Cell("ops", COMMITTED, {"transactional_id": None}, "transactions without a transactional id"),
    Cell("polls", {"role": "worker"}, {"role": "observer"}, SAME),
    Cell("polls", {"role": "worker"}, {"promised": "read_uncommitted"}, SAME),
    Cell("polls", {}, {"offset": -1}, "negative offsets"),
    Cell("expected", {}, {"group": "h"}, "the tables expected and stages name different stages or groups"),
    Cell("expected", {"n": 1}, {"n": 2}, "has rows twice, or lacks rows, of 1 input"),
    Cell("expected", {}, {"output_name": None}, "neither or both of an output name and an amount"),
    Cell("expected", {}, {"offset": -1}, "negative offsets"),
    Cell("records", {"tp": X}, {"sentinel": True}, "sentinels that do not have the value of one"),
    Cell("records", {}, {"offset": -1}, "negative offsets"),
    Cell("ends", {"tp": X}, {"sentinel_offset": 98, "next": 99}, "the table ends has the sentinel of x/0 at"),
    Cell("ends", {"tp": X}, {"sentinel_offset": -1}, "negative offsets"),
    Cell("ends", {"tp": X}, {"sentinel_offset": -2, "next": 0}, "negative offsets"),
    Cell("ends", {"tp": X}, {"sentinel_offset": -1, "next": 0}, "the sentinel of x/0 at offset -1"),
    Cell("replicas", {"tp": X, "leader": False}, None, "lacks the replica of x/0 on broker 2"),
    Cell(
        "batches", {"tp": X, "leader": False}, {"max_timestamp_ms": 1}, "one checksum and different contents"
    ),
    Cell("batches", DATA, {"base_sequence": -1}, "data batches of a producer without a sequence number"),
    Cell("batches", DATA, {"epoch": -1}, "batches with a producer id or an epoch, but not both"),
    Cell("batches", DATA, {"producer_id": -1, "epoch": -1}, "transactional batches without a producer id"),
    Cell("batches", DATA, {"marker": "commit"}, "data batches with the type of a marker"),
    Cell("batches", MARKER, {"transactional": False}, "markers that are not transactional"),
    Cell("batches", DATA, {"last_offset": -1}, "batches that end before they begin"),
    Cell("batches", DATA, {"count": 2}, "batches with more records than offsets"),
    Cell("batches", DATA, {"base_offset": -1}, "negative offsets"),
)
"""An altered cell for each rule about contradictions. Doubled rows are in `alterations`."""


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
    altered: list[Altered | Unread | Cell | None] = [None, *alterations(rows), *unread(rows), *CELLS]
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


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_altered_cell_is_reported(cell: Cell, results: Mapping[Any, CheckResult]) -> None:
    sentences = [reason.text for reason in results[cell].broken.values()]
    assert any(cell.sentence in sentence for sentence in sentences), sentences


def test_every_rule_about_one_row_has_an_altered_cell() -> None:
    single_rows = [rule.text for rule in AGREEMENTS if not rule.name.endswith("_twice")]
    assert not [text for text in single_rows if not any(cell.sentence in text for cell in CELLS)]
    for table, _, text, _ in IMPOSSIBLE:
        assert any(cell.table == table and cell.sentence in text for cell in CELLS), (table, text)
