"""PostgreSQL as a `Database`, and as an outbox of inputs.

In an outbox, the number of a row comes from a sequence, which is not transactional. So a row may become visible after
rows with higher numbers, and the numbers of rolled back rows are never visible.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg.rows import TupleRow

from harness.databases.interface import (
    CommitUnknown,
    DatabaseError,
    KeyState,
    NewTableRow,
    PositionConflict,
    Range,
    SideEffect,
    TableRow,
)
from harness.model.pipeline import TopicPartition

INPUTS_SCHEMA = """
CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, customer BYTEA, body BYTEA);
CREATE TABLE outbox (id BIGSERIAL PRIMARY KEY, value TEXT NOT NULL, key BYTEA, content BYTEA,
                     sent BOOLEAN NOT NULL DEFAULT FALSE);
CREATE INDEX ON outbox (id) WHERE NOT sent;
CREATE TABLE relayed (beyond BIGINT NOT NULL);
INSERT INTO relayed VALUES (0);
"""
_ROW = "value, key, content, id"
SCHEMA = f"""{INPUTS_SCHEMA}
CREATE TABLE effects (id BIGSERIAL PRIMARY KEY, tab TEXT NOT NULL, value TEXT NOT NULL, output_name TEXT NOT NULL,
                      sources TEXT NOT NULL, key BYTEA, content BYTEA, once TEXT, UNIQUE (tab, output_name, once));
CREATE TABLE states (id BIGSERIAL PRIMARY KEY, tab TEXT NOT NULL, key BYTEA NOT NULL, content BYTEA,
                     changes BIGINT NOT NULL, UNIQUE (tab, key));
CREATE TABLE positions (grp TEXT, topic TEXT, number INTEGER, next BIGINT NOT NULL,
                        PRIMARY KEY (grp, topic, number));
"""
_ADD = "INSERT INTO effects (tab, value, output_name, sources, key, content, once) VALUES (%s, %s, %s, %s, %s, %s, %s)"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of the driver as `DatabaseError` inside a `with` block."""
    try:
        yield
    except psycopg.Error as error:
        raise DatabaseError(f"{type(error).__name__}: {str(error).strip()}") from error


def connect(conninfo: str) -> psycopg.Connection:
    """Connect in autocommit mode, so that the caller begins and ends transactions. Raises `psycopg.Error`."""
    return psycopg.connect(conninfo, autocommit=True)


class PostgresInputs:
    """An `InputTable`."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None
        self._begun = False

    def write(self, rows: Sequence[NewTableRow]) -> list[int]:
        numbers = []
        for row in rows:
            self._execute("INSERT INTO orders (customer, body) VALUES (%s, %s)", row.key, row.content)
            ids = self._execute(
                "INSERT INTO outbox (value, key, content) VALUES (%s, %s, %s) RETURNING id",
                *(row.value, row.key, row.content),
            )
            numbers += [int(number) for (number,) in ids]
        return numbers

    def take(self, max_records: int) -> list[TableRow]:
        return _rows(
            self._execute(
                f"SELECT {_ROW} FROM outbox WHERE NOT sent ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED",
                max_records,
            )
        )

    def take_after_position(self, max_records: int) -> list[TableRow]:
        for (beyond,) in self._execute("SELECT beyond FROM relayed FOR UPDATE SKIP LOCKED"):
            return _rows(
                self._execute(
                    f"SELECT {_ROW} FROM outbox WHERE id > %s ORDER BY id LIMIT %s", beyond, max_records
                )
            )
        return []

    def mark(self, numbers: Sequence[int]) -> None:
        self._execute("UPDATE outbox SET sent = TRUE WHERE id = ANY(%s)", list(numbers))

    def move_position(self, number: int) -> None:
        self._execute("UPDATE relayed SET beyond = %s", number)

    def commit(self) -> None:
        if not self._begun:
            return
        assert self._connection is not None
        self._begun = False
        try:
            self._connection.execute("COMMIT")
        except psycopg.Error as error:
            self.close()
            raise CommitUnknown(f"{type(error).__name__}: {str(error).strip()}") from error

    def roll_back(self) -> None:
        if self._begun and self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:  # a broken connection has rolled back
                self.close()
        self._begun = False

    def count_pending(self, within: Range | None = None) -> int:
        first, end = within or (0, 1 << 62)
        ((count,),) = self._execute(
            "SELECT count(*) FROM outbox, relayed WHERE NOT sent AND id > beyond AND id >= %s AND id < %s",
            *(first, end),
        )
        self.commit()
        return int(count)

    def read_all(self) -> tuple[list[TableRow], int]:
        rows = self._execute(f"SELECT {_ROW}, sent OR id <= beyond FROM outbox, relayed ORDER BY id")
        ((last,),) = self._execute("SELECT last_value FROM outbox_id_seq")
        self.commit()
        return _rows(rows), int(last) + 1

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection, self._begun = None, False

    def _execute(self, statement: str, *parameters: object) -> list[TupleRow]:
        """Execute a statement and return its rows. Begin a transaction if none is open."""
        try:
            with translate_errors():
                if self._connection is None or (self._connection.closed and not self._begun):
                    self._connection = connect(self._conninfo)
                if not self._begun:
                    self._connection.execute("BEGIN")
                    self._begun = True
                cursor = self._connection.execute(statement.encode(), parameters)
                return cursor.fetchall() if cursor.description else []
        except DatabaseError:
            self.close()
            raise


def _rows(tuples: Sequence[TupleRow]) -> list[TableRow]:
    return [TableRow(value, key, content, number, *done) for value, key, content, number, *done in tuples]


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
