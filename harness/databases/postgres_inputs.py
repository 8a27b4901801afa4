"""An outbox in PostgreSQL. Orders and their rows are written in one transaction, and rows are taken with SKIP LOCKED.

The number of a row comes from a sequence, which is not transactional. So a row may become visible after rows with
higher numbers, and the numbers of rolled back rows are never visible.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg.rows import TupleRow

from harness.databases.interface import CommitUnknown, DatabaseError, NewTableRow, Range, TableRow

INPUTS_SCHEMA = """
CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, customer BYTEA, body BYTEA);
CREATE TABLE outbox (id BIGSERIAL PRIMARY KEY, value TEXT NOT NULL, key BYTEA, content BYTEA,
                     sent BOOLEAN NOT NULL DEFAULT FALSE);
CREATE INDEX ON outbox (id) WHERE NOT sent;
CREATE TABLE relayed (beyond BIGINT NOT NULL);
INSERT INTO relayed VALUES (0);
"""
_ROW = "value, key, content, id"


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
