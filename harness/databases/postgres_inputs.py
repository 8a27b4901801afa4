"""An outbox in PostgreSQL: orders and their rows, written in one transaction, taken with `FOR UPDATE SKIP LOCKED`.

The number of a row comes from a sequence, which takes part in no transaction: a row may become visible after rows with
higher numbers, and numbers of what was rolled back are never seen.
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
    """Errors of the driver as `DatabaseError`."""
    try:
        yield
    except psycopg.Error as error:
        raise DatabaseError(f"{type(error).__name__}: {str(error).strip()}") from error


def connect(conninfo: str) -> psycopg.Connection:
    """A connection whose transactions begin and end where they are told to. Raises `psycopg.Error`."""
    return psycopg.connect(conninfo, autocommit=True)


class PostgresInputs:
    """An `Inputs`."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None
        self._begun = False

    def write(self, rows: Sequence[NewTableRow]) -> list[int]:
        """Write an order and its row for each, in the transaction."""
        numbers = []
        for row in rows:
            self._do("INSERT INTO orders (customer, body) VALUES (%s, %s)", row.key, row.content)
            given = self._do(
                "INSERT INTO outbox (value, key, content) VALUES (%s, %s, %s) RETURNING id",
                *(row.value, row.key, row.content),
            )
            numbers += [int(number) for (number,) in given]
        return numbers

    def take(self, max_records: int) -> list[TableRow]:
        """Lock the first rows that nobody has done or is about to do."""
        return _rows(
            self._do(
                f"SELECT {_ROW} FROM outbox WHERE NOT sent ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED",
                max_records,
            )
        )

    def take_after_position(self, max_records: int) -> list[TableRow]:
        """The rows beyond the place that all who take have in common."""
        for (beyond,) in self._do("SELECT beyond FROM relayed FOR UPDATE SKIP LOCKED"):
            return _rows(
                self._do(f"SELECT {_ROW} FROM outbox WHERE id > %s ORDER BY id LIMIT %s", beyond, max_records)
            )
        return []

    def mark(self, numbers: Sequence[int]) -> None:
        """Mark rows as done."""
        self._do("UPDATE outbox SET sent = TRUE WHERE id = ANY(%s)", list(numbers))

    def move_position(self, number: int) -> None:
        """Move the common place."""
        self._do("UPDATE relayed SET beyond = %s", number)

    def commit(self) -> None:
        """End the transaction."""
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
        """End the transaction without effect."""
        if self._begun and self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:  # a connection that broke has rolled back
                self.close()
        self._begun = False

    def count_pending(self, within: Range | None = None) -> int:
        """How many visible rows nobody has done yet."""
        first, following = within or (0, 1 << 62)
        ((count,),) = self._do(
            "SELECT count(*) FROM outbox, relayed WHERE NOT sent AND id > beyond AND id >= %s AND id < %s",
            *(first, following),
        )
        self.commit()
        return int(count)

    def read_all(self) -> tuple[list[TableRow], int]:
        """All visible rows, by number, and a number that lies above all that were ever given."""
        rows = self._do(f"SELECT {_ROW}, sent OR id <= beyond FROM outbox, relayed ORDER BY id")
        ((last,),) = self._do("SELECT last_value FROM outbox_id_seq")
        self.commit()
        return _rows(rows), int(last) + 1

    def close(self) -> None:
        """Be done with it."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection, self._begun = None, False

    def _do(self, statement: str, *parameters: object) -> list[TupleRow]:
        """A statement of the transaction, which begins with the first."""
        try:
            with translate_errors():
                if self._connection is None or (self._connection.closed and not self._begun):
                    self._connection = connect(self._conninfo)
                if not self._begun:
                    self._connection.execute("BEGIN")
                    self._begun = True
                done = self._connection.execute(statement.encode(), parameters)
                return done.fetchall() if done.description else []
        except DatabaseError:
            self.close()
            raise


def _rows(found: Sequence[TupleRow]) -> list[TableRow]:
    return [TableRow(value, key, content, number, *rest) for value, key, content, number, *rest in found]
