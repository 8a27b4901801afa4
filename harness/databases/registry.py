"""The kinds of databases by name. A new kind is a new file and a line here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.databases.interface import (
    Database,
    DatabaseError,
    DatabaseKind,
    DatabaseParts,
    InputTable,
    Service,
)
from harness.databases.sqlite import Sqlite


class PostgresKind:
    """A `DatabaseKind`."""

    name = "postgres"
    has_server = True

    def address(self, folder: Path) -> str:
        """Return the path of a file with the connection string. It exists while the server runs.

        The address is a file because the port is not known before the server starts.
        """
        return str(folder / "postgres.conninfo")

    @contextmanager
    def provide(self, parts: DatabaseParts) -> Iterator[Service]:
        """Start a server with empty tables. Its data is deleted after the run. Its log stays in the run folder."""
        import psycopg

        from harness.databases.postgres import SCHEMA
        from harness.databases.postgres_server import PostgresServer

        if parts.postgres is None:
            raise EnvironmentFailure("the run needs PostgreSQL, but none was prepared")
        server = PostgresServer(parts.postgres, parts.folder, parts.supervisor, parts.next_port())
        conninfo_file = Path(self.address(parts.folder))
        server.make()
        try:
            server.start()
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                connection.execute(SCHEMA)
            conninfo_file.write_text(server.conninfo, encoding="utf-8")
            yield server
        finally:
            server.stop()
            conninfo_file.unlink(missing_ok=True)

    def connect(self, address: str) -> Database:
        from harness.databases.postgres import PostgresDatabase

        return PostgresDatabase(_conninfo(address))

    def inputs(self, address: str) -> InputTable:
        from harness.databases.postgres import PostgresInputs

        return PostgresInputs(_conninfo(address))


def _conninfo(address: str) -> str:
    try:
        return Path(address).read_text(encoding="utf-8")
    except OSError as error:
        raise DatabaseError(f"the address of PostgreSQL cannot be read: {error}") from error


DATABASES: dict[str, DatabaseKind] = {kind.name: kind for kind in (Sqlite(), PostgresKind())}
