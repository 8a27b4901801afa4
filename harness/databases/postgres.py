"""A real PostgreSQL, as a store: a server of the run's own, which a fault may kill."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from harness.databases.interface import (
    CommitUnknown,
    KeyState,
    Place,
    PositionConflict,
    SideEffect,
)
from harness.databases.postgres_inputs import INPUTS_SCHEMA, connect, translate_errors

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
        """Do something."""
        with translate_errors():
            self._connection.execute(_ADD, (*_cells(effect), None))

    def add_once(self, effect: SideEffect) -> bool:
        """Do something, unless it was done for the same inputs before: a unique key says so."""
        with translate_errors():
            done = self._connection.execute(
                f"{_ADD} ON CONFLICT (tab, output_name, once) DO NOTHING", (*_cells(effect), effect.sources)
            )
        return done.rowcount == 1

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        """Set the state of a key, and count the change."""
        with translate_errors():
            self._connection.execute(
                "INSERT INTO states (tab, key, content, changes) VALUES (%s, %s, %s, 1) ON CONFLICT (tab, key) "
                "DO UPDATE SET content = excluded.content, changes = states.changes + 1",
                (table, key, content),
            )

    def advance(self, group: str, place: Place, known: int | None, following: int) -> None:
        """Say how far the inputs are applied."""
        with translate_errors():
            if known is None:
                done = self._connection.execute(
                    "INSERT INTO positions VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (group, *place, following),
                )
            else:
                done = self._connection.execute(
                    "UPDATE positions SET next = %s WHERE grp = %s AND topic = %s AND number = %s AND next = %s",
                    (following, group, *place, known),
                )
        if done.rowcount != 1:
            raise PositionConflict(
                f"the inputs of {place[0]}/{place[1]} were not applied up to {0 if known is None else known}: "
                "another process has gone on"
            )


class PostgresDatabase:
    """A `Database`. After an error the next call connects anew."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None

    def position(self, group: str, place: Place) -> int | None:
        """How far the inputs of a partition are applied."""
        with self._connected() as connection:
            row = connection.execute(
                "SELECT next FROM positions WHERE grp = %s AND topic = %s AND number = %s", (group, *place)
            ).fetchone()
        return None if row is None else int(row[0])

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Leaving the `with` commits; an exception rolls back."""
        with self._connected() as connection:
            connection.execute("BEGIN")
        try:
            yield PostgresTransaction(connection)
        except BaseException:
            with suppress(psycopg.Error):  # a connection that broke has rolled back
                connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            raise CommitUnknown(f"{type(error).__name__}: {str(error).strip()}") from error

    def effects(self, table: str) -> Iterable[tuple[int, SideEffect]]:
        """The rows of a table of effects."""
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT tab, value, output_name, sources, key, content FROM effects WHERE tab = %s ORDER BY id",
                (table,),
            )
            yield from ((number, SideEffect(*row)) for number, row in enumerate(rows))

    def states(self, table: str) -> Iterable[tuple[int, KeyState]]:
        """The rows of a table of state."""
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT key, content, changes FROM states WHERE tab = %s ORDER BY id", (table,)
            )
            yield from ((number, KeyState(*row)) for number, row in enumerate(rows))

    def close(self) -> None:
        """Be done with it."""
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
