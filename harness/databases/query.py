"""Print the rows of one SQL query, a line for each row: `python -m harness.databases.query SECONDS`.

The database and the query are in environment variables, because every user of a machine can see the words of a command.
The query has its own process, which can be killed if the database does not answer.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from harness.databases.interface import DatabaseError

QUERY = "harness.databases.query"
"""This module."""
DATABASE, SQL = "FENCEPOST_DATABASE", "FENCEPOST_SQL"
"""The environment variables with the address of the database, and with the query."""
SERVER = ("postgresql://", "postgres://")


def is_server(database: str) -> bool:
    """Return whether an address is that of a PostgreSQL server. If not, it is the file of a SQLite database."""
    return database.startswith(SERVER)


def rows(database: str, sql: str, within_s: float) -> Iterator[Sequence[object]]:
    """Yield the rows of a query, which must not change anything. Raises `DatabaseError`."""
    if is_server(database):
        import psycopg

        try:
            with psycopg.connect(database, connect_timeout=max(1, round(within_s))) as server:
                server.read_only = True
                yield from server.execute(sql.encode())
        except psycopg.Error as error:
            raise DatabaseError(f"{type(error).__name__}: {error}") from error
        return
    try:
        with closing(
            sqlite3.connect(f"{Path(database).as_uri()}?mode=ro", uri=True, timeout=within_s)
        ) as connection:
            yield from connection.execute(sql)
    except sqlite3.Error as error:
        raise DatabaseError(f"{type(error).__name__}: {error}") from error


def main(argv: Sequence[str]) -> int:
    """Exit with status 0, or with 1 and the error of the database."""
    try:
        for row in rows(os.environ[DATABASE], os.environ[SQL], float(argv[0])):
            sys.stdout.write(" ".join("NULL" if value is None else str(value) for value in row) + "\n")
    except DatabaseError as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
