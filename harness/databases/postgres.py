"""PostgreSQL as a `Database`. The server is `postgres_server`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from harness.databases.interface import (
    CommitUnknown,
    KeyState,
    PositionConflict,
    SideEffect,
)
from harness.databases.postgres_inputs import INPUTS_SCHEMA, connect, translate_errors
from harness.model.pipeline import TopicPartition

SCHEMA = f"""{INPUTS_SCHEMA}
CREATE TABLE effects (id BIGSERIAL PRIMARY KEY, tab TEXT NOT NULL, value TEXT NOT NULL, output_name TEXT NOT NULL,
                      sources TEXT NOT NULL, key BYTEA, content BYTEA, once TEXT, UNIQUE (tab, output_name, once));
CREATE TABLE states (id BIGSERIAL PRIMARY KEY, tab TEXT NOT NULL, key BYTEA NOT NULL, content BYTEA,
                     changes BIGINT NOT NULL, UNIQUE (tab, key));
CREATE TABLE positions (grp TEXT, topic TEXT, number INTEGER, next BIGINT NOT NULL,
                        PRIMARY KEY (grp, topic, number));
"""
_ADD = "INSERT INTO effects (tab, value, output_name, sources, key, content, once) VALUES (%s, %s, %s, %s, %s, %s, %s)"


class PostgresTransaction:
    """A `DatabaseTransaction`."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def add(self, effect: SideEffect) -> None:
        with translate_errors():
            self._connection.execute(_ADD, (*_cells(effect), None))

    def add_once(self, effect: SideEffect) -> bool:
        """Add an effect, unless the unique key (table, output name, inputs) exists."""
        with translate_errors():
            cursor = self._connection.execute(
                f"{_ADD} ON CONFLICT (tab, output_name, once) DO NOTHING", (*_cells(effect), effect.sources)
            )
        return cursor.rowcount == 1

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        with translate_errors():
            self._connection.execute(
                "INSERT INTO states (tab, key, content, changes) VALUES (%s, %s, %s, 1) ON CONFLICT (tab, key) "
                "DO UPDATE SET content = excluded.content, changes = states.changes + 1",
                (table, key, content),
            )

    def advance(self, group: str, topic_partition: TopicPartition, old: int | None, new: int) -> None:
        with translate_errors():
            if old is None:
                cursor = self._connection.execute(
                    "INSERT INTO positions VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (group, *topic_partition, new),
                )
            else:
                cursor = self._connection.execute(
                    "UPDATE positions SET next = %s WHERE grp = %s AND topic = %s AND number = %s AND next = %s",
                    (new, group, *topic_partition, old),
                )
        if cursor.rowcount != 1:
            topic, number = topic_partition
            raise PositionConflict(
                f"the stored position of {topic}/{number} is not {old or 0}: another process has moved the position"
            )


class PostgresDatabase:
    """A `Database`. It connects at the first call, and reconnects after the connection broke."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None

    def position(self, group: str, topic_partition: TopicPartition) -> int | None:
        with self._connected() as connection:
            row = connection.execute(
                "SELECT next FROM positions WHERE grp = %s AND topic = %s AND number = %s",
                (group, *topic_partition),
            ).fetchone()
        return None if row is None else int(row[0])

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        with self._connected() as connection:
            connection.execute("BEGIN")
        try:
            yield PostgresTransaction(connection)
        except BaseException:
            with suppress(psycopg.Error):  # a broken connection has rolled back
                connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            raise CommitUnknown(f"{type(error).__name__}: {str(error).strip()}") from error

    def effects(self, table: str) -> Iterable[tuple[int, SideEffect]]:
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT tab, value, output_name, sources, key, content FROM effects WHERE tab = %s ORDER BY id",
                (table,),
            )
            yield from ((number, SideEffect(*row)) for number, row in enumerate(rows))

    def states(self, table: str) -> Iterable[tuple[int, KeyState]]:
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT key, content, changes FROM states WHERE tab = %s ORDER BY id", (table,)
            )
            yield from ((number, KeyState(*row)) for number, row in enumerate(rows))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with translate_errors():
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._conninfo)
            yield self._connection


def _cells(effect: SideEffect) -> tuple[object, ...]:
    return (effect.table, effect.value, effect.output_name, effect.sources, effect.key, effect.content)
