"""A store takes effects and position together or not at all, and its reader says what stands in it."""

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
from harness.record.naming import digest, output_headers
from harness.record.partitions import PartitionIds
from harness.record.parts import PartWriter, parts_folder
from harness.record.tables import Tabulator
from harness.roles.control import Control
from tests.support.store_conformance import check_store

PLACE = ("in", 0)


def effect(n: int, content: bytes | None = b"v") -> SideEffect:
    return SideEffect("applied", f"w:{n}:0", "applied", f"in/0/{n}", b"k", content)


@pytest.fixture
def store(tmp_path: Path) -> Database:
    kind = Sqlite()
    with kind.provide(DatabaseParts(tmp_path, None, lambda: 0)):
        return kind.connect(kind.address(tmp_path))


def test_effects_and_position_stand_together(store: Database) -> None:
    with store.transaction() as work:
        work.add(effect(0))
        work.change("users", b"k", b"one")
        work.advance("g", PLACE, None, 1)
    assert [one.value for _, one in store.effects("applied")] == ["w:0:0"]
    assert [(one.key, one.changes) for _, one in store.states("users")] == [(b"k", 1)]
    assert store.position("g", PLACE) == 1 and store.position("h", PLACE) is None


@pytest.mark.parametrize("known", [None, 0, 2])
def test_who_was_overtaken_does_nothing(store: Database, known: int | None) -> None:
    with store.transaction() as work:
        work.advance("g", PLACE, None, 1)
    with (
        pytest.raises(PositionConflict, match="another process has moved the position"),
        store.transaction() as work,
    ):
        work.add(effect(0))
        work.change("users", b"k", None)
        work.advance("g", PLACE, known, 2)
    assert not list(store.effects("applied")) and not list(store.states("users"))
    assert store.position("g", PLACE) == 1


def test_two_processes_see_each_others_transactions(store: Database, tmp_path: Path) -> None:
    other = Sqlite().connect(Sqlite().address(tmp_path))
    with store.transaction() as work:
        work.change("users", b"k", b"one")
    with other.transaction() as work:
        work.change("users", b"k", None)
    assert [(one.content, one.changes) for _, one in store.states("users")] == [(None, 2)]


def test_a_store_that_nobody_made_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError):
        Sqlite().connect(str(tmp_path / "none.sqlite"))


def test_it_does_what_every_store_must(store: Database, tmp_path: Path) -> None:
    check_store(lambda: Sqlite().connect(Sqlite().address(tmp_path)))


class Expect:
    def due(self, record: InputRecord) -> tuple[()]:
        return ()

    def adds(self, record: InputRecord) -> tuple[()]:
        return ()

    def state(self, record: InputRecord) -> int | None:
        return int(record.value or b"0")


def test_the_reader_writes_rows_as_records_and_says_that_it_came_to_the_end(
    store: Database, tmp_path: Path
) -> None:
    with store.transaction() as work:
        work.add(effect(4))
        work.add(effect(5, None))
        work.change("users", b"k", b"one")
        work.change("users", b"k", b"two")
    path = tmp_path / "final-store.jsonl"
    with Journal(path, 0, JournalBegan("final-store", role="final")) as journal:
        parts = PartWriter(journal, parts_folder(path))
        names = PartitionIds(dict.fromkeys(("in", "applied", "users", "none"), 1))
        DatabaseReader(
            store, ["applied", "users", "none"], names, journal, parts, Control(None), Expect(), ["users"]
        ).run()
    Tabulator(1, (StageSpec("s", ("in",)),), names).write([path], tmp_path / "history")
    tps = {topic: tp for tp, topic, _ in names}
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


def test_a_commit_that_failed_is_undone_and_the_store_goes_on(store: SqliteDatabase) -> None:
    store._connection = FullDisk(store._connection)  # type: ignore[assignment]
    with pytest.raises(DatabaseError, match="disk is full") as met, store.transaction() as work:
        work.add(effect(0))
    assert not isinstance(met.value, CommitUnknown)
    with store.transaction() as work:
        work.add(effect(1))
    assert [one.value for _, one in store.effects("applied")] == ["w:1:0"]
