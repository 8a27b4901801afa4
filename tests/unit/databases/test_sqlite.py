"""A database commits effects and position together, and its final reader records all rows."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from harness.databases.interface import (
    CommitUnknown,
    Database,
    DatabaseError,
    DatabaseParts,
    PositionConflict,
    SideEffect,
)
from harness.databases.reader import DatabaseReader
from harness.databases.sqlite import Sqlite, SqliteDatabase
from harness.model.expectation import InputRecord
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Isolation
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import PartitionIds, digest, output_headers
from harness.record.parts import PartWriter, parts_folder
from harness.record.tables import Tabulator
from harness.roles.control import Control
from tests.support.store_conformance import check_store

PARTITION = ("in", 0)


def effect(n: int, content: bytes | None = b"v") -> SideEffect:
    return SideEffect("applied", f"w:{n}:0", "applied", f"in/0/{n}", b"k", content)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    kind = Sqlite()
    with kind.provide(DatabaseParts(tmp_path, None, lambda: 0)):
        return kind.connect(kind.address(tmp_path))


def test_effects_and_position_are_committed_together(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.add(effect(0))
        transaction.change("users", b"k", b"one")
        transaction.advance("g", PARTITION, None, 1)
    assert [row.value for _, row in database.effects("applied")] == ["w:0:0"]
    assert [(row.key, row.changes) for _, row in database.states("users")] == [(b"k", 1)]
    assert database.position("g", PARTITION) == 1 and database.position("h", PARTITION) is None


@pytest.mark.parametrize("old", [None, 0, 2])
def test_a_position_conflict_rolls_the_transaction_back(database: Database, old: int | None) -> None:
    with database.transaction() as transaction:
        transaction.advance("g", PARTITION, None, 1)
    with (
        pytest.raises(PositionConflict, match="another process has moved the position"),
        database.transaction() as transaction,
    ):
        transaction.add(effect(0))
        transaction.change("users", b"k", None)
        transaction.advance("g", PARTITION, old, 2)
    assert not list(database.effects("applied")) and not list(database.states("users"))
    assert database.position("g", PARTITION) == 1


def test_two_processes_see_each_others_transactions(database: Database, tmp_path: Path) -> None:
    other = Sqlite().connect(Sqlite().address(tmp_path))
    with database.transaction() as transaction:
        transaction.change("users", b"k", b"one")
    with other.transaction() as transaction:
        transaction.change("users", b"k", None)
    assert [(row.content, row.changes) for _, row in database.states("users")] == [(None, 2)]


def test_connecting_to_a_file_that_does_not_exist_fails(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError):
        Sqlite().connect(str(tmp_path / "none.sqlite"))


def test_sqlite_passes_the_conformance_suite_of_databases(database: Database, tmp_path: Path) -> None:
    check_store(lambda: Sqlite().connect(Sqlite().address(tmp_path)))


class SumExpectation:
    def expected_outputs(self, record: InputRecord) -> tuple[()]:
        return ()

    def expected_sums(self, record: InputRecord) -> tuple[()]:
        return ()

    def held_sum(self, record: InputRecord) -> int | None:
        return int(record.value or b"0")


def test_the_final_reader_records_the_rows_and_the_end_of_each_table(
    database: Database, tmp_path: Path
) -> None:
    with database.transaction() as transaction:
        transaction.add(effect(4))
        transaction.add(effect(5, None))
        transaction.change("users", b"k", b"one")
        transaction.change("users", b"k", b"two")
    path = tmp_path / "final-store.jsonl"
    with Journal(path, 0, JournalBegan("final-store", role="final")) as journal:
        parts = PartWriter(journal, parts_folder(path))
        partitions = PartitionIds(dict.fromkeys(("in", "applied", "users", "none"), 1))
        DatabaseReader(
            database,
            ["applied", "users", "none"],
            partitions,
            journal,
            parts,
            Control(None),
            SumExpectation(),
            ["users"],
        ).run()
    Tabulator(1, (StageSpec("s", ("in",)),), partitions).write([path], tmp_path / "history")
    tps = {topic: tp for tp, topic, _ in partitions}
    import pyarrow.parquet as pq

    rows = pq.read_table(tmp_path / "history" / "records.parquet").to_pylist()
    first, second, state = rows
    assert (first["tp"], first["offset"], first["value"]) == (tps["applied"], 0, "w:4:0")
    assert first["inputs"] == [{"tp": tps["in"], "offset": 4}]
    assert first["digest"] == digest(b"k", b"v", output_headers("", "applied", [("in", 0, 4)]))
    assert second["digest"] == digest(b"k", None, output_headers("", "applied", [("in", 0, 5)]))
    assert (state["tp"], state["key"], state["state"]) == (tps["users"], "k", 2)
    polls = pq.read_table(tmp_path / "history" / "polls.parquet").to_pylist()
    assert [(row["tp"], row["offset"], row["role"]) for row in polls] == [
        (row["tp"], row["offset"], "final") for row in rows
    ]
    ends = pq.read_table(tmp_path / "history" / "ends.parquet").to_pylist()
    assert {
        (row["isolation"], row["tp"]): (row["next"], row["read"], row["sentinel_offset"]) for row in ends
    } == {
        (level.value, tps[table]): (count + 1, count, count)
        for level in Isolation
        for table, count in (("applied", 2), ("users", 1), ("none", 0))
    }


class FullDisk:
    """A connection whose first COMMIT fails, with the transaction still open."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.full = True

    def execute(self, statement: str, *rest: Any) -> Any:
        if statement == "COMMIT" and self.full:
            self.full = False
            raise sqlite3.OperationalError("database or disk is full")
        return self._connection.execute(statement, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_failed_commit_is_rolled_back_and_the_next_one_succeeds(database: SqliteDatabase) -> None:
    database._connection = FullDisk(database._connection)  # type: ignore[assignment]
    with pytest.raises(DatabaseError, match="disk is full") as raised, database.transaction() as transaction:
        transaction.add(effect(0))
    assert not isinstance(raised.value, CommitUnknown)
    with database.transaction() as transaction:
        transaction.add(effect(1))
    assert [row.value for _, row in database.effects("applied")] == ["w:1:0"]
