"""SQLite as a `Database`, in a file of the run folder. It has real transactions and locks, and needs no server."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.databases.interface import (
    CommitUnknown,
    DatabaseError,
    DatabaseParts,
    InputTable,
    KeyState,
    PositionConflict,
    SideEffect,
)
from harness.model.pipeline import TopicPartition

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits until the transaction of another writer ends."""
_SCHEMA = """
CREATE TABLE effects (id INTEGER PRIMARY KEY, tab TEXT NOT NULL, value TEXT NOT NULL, output_name TEXT NOT NULL,
                      sources TEXT NOT NULL, key BLOB, content BLOB);
CREATE TABLE states (id INTEGER PRIMARY KEY, tab TEXT NOT NULL, key BLOB NOT NULL, content BLOB,
                     changes INTEGER NOT NULL, UNIQUE (tab, key));
CREATE TABLE positions (grp TEXT, topic TEXT, number INTEGER, next INTEGER NOT NULL,
                        PRIMARY KEY (grp, topic, number));
"""


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseError(f"{type(error).__name__}: {error}") from error


class SqliteTransaction:
    """A `DatabaseTransaction`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, effect: SideEffect) -> None:
        row = (effect.table, effect.value, effect.output_name, effect.sources, effect.key, effect.content)
        with _translate_errors():
            self._connection.execute(
                "INSERT INTO effects (tab, value, output_name, sources, key, content) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )

    def add_once(self, effect: SideEffect) -> bool:
        with _translate_errors():
            existing = self._connection.execute(
                "SELECT 1 FROM effects WHERE tab = ? AND output_name = ? AND sources = ?",
                (effect.table, effect.output_name, effect.sources),
            ).fetchone()
        if existing is None:
            self.add(effect)
        return existing is None

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        with _translate_errors():
            self._connection.execute(
                "INSERT INTO states (tab, key, content, changes) VALUES (?, ?, ?, 1) "
                "ON CONFLICT (tab, key) DO UPDATE SET content = excluded.content, changes = changes + 1",
                (table, key, content),
            )

    def advance(self, group: str, topic_partition: TopicPartition, old: int | None, new: int) -> None:
        with _translate_errors():
            if old is None:
                cursor = self._connection.execute(
                    "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (group, *topic_partition, new),
                )
            else:
                cursor = self._connection.execute(
                    "UPDATE positions SET next = ? WHERE grp = ? AND topic = ? AND number = ? AND next = ?",
                    (new, group, *topic_partition, old),
                )
        if cursor.rowcount != 1:
            topic, number = topic_partition
            raise PositionConflict(
                f"the stored position of {topic}/{number} is not {old or 0}: another process has moved the position"
            )


class SqliteDatabase:
    """A `Database`."""

    def __init__(self, path: Path) -> None:
        with _translate_errors():  # mode=rw: do not create a file, because the run has created it
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=rw", BUSY_TIMEOUT_S, isolation_level=None, uri=True
            )

    def position(self, group: str, topic_partition: TopicPartition) -> int | None:
        with _translate_errors():
            row = self._connection.execute(
                "SELECT next FROM positions WHERE grp = ? AND topic = ? AND number = ?",
                (group, *topic_partition),
            ).fetchone()
        return None if row is None else int(row[0])

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        with _translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield SqliteTransaction(self._connection)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:  # the commit was not carried out, as after a busy time-out
                self._connection.execute("ROLLBACK")
                raise DatabaseError(f"{type(error).__name__}: {error}") from error
            raise CommitUnknown(f"{type(error).__name__}: {error}") from error

    def effects(self, table: str) -> Iterable[tuple[int, SideEffect]]:
        with _translate_errors():
            rows = self._connection.execute(
                "SELECT tab, value, output_name, sources, key, content FROM effects WHERE tab = ? ORDER BY id",
                (table,),
            )
            yield from ((number, SideEffect(*row)) for number, row in enumerate(rows))

    def states(self, table: str) -> Iterable[tuple[int, KeyState]]:
        with _translate_errors():
            rows = self._connection.execute(
                "SELECT key, content, changes FROM states WHERE tab = ? ORDER BY id", (table,)
            )
            yield from ((number, KeyState(*row)) for number, row in enumerate(rows))

    def close(self) -> None:
        self._connection.close()


class Sqlite:
    """A `DatabaseKind`."""

    name = "sqlite"
    has_server = False

    def address(self, folder: Path) -> str:
        return str(folder / "store.sqlite")

    @contextmanager
    def provide(self, parts: DatabaseParts) -> Iterator[None]:
        """Create the file. It stays in the run folder after the run."""
        with _translate_errors():
            connection = sqlite3.connect(self.address(parts.folder))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.close()
        yield

    def connect(self, address: str) -> SqliteDatabase:
        return SqliteDatabase(Path(address))

    def inputs(self, address: str) -> InputTable:
        """Raise `DatabaseError`: SQLite has one writer at a time, but a feeder needs transactions that overlap."""
        raise DatabaseError("SQLite has no table of inputs: use PostgreSQL")
