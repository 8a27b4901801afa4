"""Print the rows of one SQL query, a line for each row: `python -m harness.databases.query SECONDS`.

The database and the query are in environment variables, because every user of a machine can see the words of a command.
A process of its own can be killed if the database does not answer.
"""

import os
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

QUERY = "harness.databases.query"
"""This module."""
DATABASE, SQL = "FENCEPOST_DATABASE", "FENCEPOST_SQL"
"""The environment variables with the address of the database, and with the query."""
SERVER = ("postgresql://", "postgres://")


def is_server(database: str) -> bool:
    """Return whether an address is that of a PostgreSQL server. If not, it is the file of a SQLite database."""
    return database.startswith(SERVER)


def rows(database: str, sql: str, within_s: float) -> Iterable[Sequence[object]]:
    """Yield the rows of a query, which must not change anything. Raises the errors of the database's driver."""
    if is_server(database):
        import psycopg

        with psycopg.connect(database, connect_timeout=max(1, round(within_s))) as server:
            server.read_only = True
            yield from server.execute(sql.encode())
        return
    connection = sqlite3.connect(f"{Path(database).as_uri()}?mode=ro", uri=True, timeout=within_s)
    try:
        yield from connection.execute(sql)
    finally:
        connection.close()


def main(argv: Sequence[str]) -> int:
    """Exit with status 0, or with 1 and the error of the database."""
    try:
        for row in rows(os.environ[DATABASE], os.environ[SQL], float(argv[0])):
            sys.stdout.write(" ".join("NULL" if value is None else str(value) for value in row) + "\n")
    except Exception as error:  # noqa: BLE001  drivers have no common base class, and the caller shows the message
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
