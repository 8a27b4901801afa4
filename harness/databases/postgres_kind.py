"""PostgreSQL as a kind of store, known without its driver: psycopg comes with the extra `postgres`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.common.errors import EnvironmentFailure
from harness.databases.interface import Database, DatabaseError, DatabaseParts, InputTable, Service


class PostgresKind:
    """A `DatabaseKind`."""

    name = "postgres"
    has_server = True

    def address(self, folder: Path) -> str:
        """A file that says how the server is reached: its port is not known before it is started."""
        return str(folder / "postgres.conninfo")

    @contextmanager
    def provide(self, parts: DatabaseParts) -> Iterator[Service]:
        """A server with empty tables. Its data go with the run; its log stays."""
        import psycopg

        from harness.databases.postgres import SCHEMA
        from harness.databases.postgres_server import PostgresServer

        if parts.postgres is None:
            raise EnvironmentFailure("PostgreSQL was not prepared")
        server = PostgresServer(parts.postgres, parts.folder, parts.supervisor, parts.next_port())
        place = Path(self.address(parts.folder))
        server.make()
        try:
            server.start()
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                connection.execute(SCHEMA)
            place.write_text(server.conninfo)
            yield server
        finally:
            server.stop()
            place.unlink(missing_ok=True)

    def connect(self, address: str) -> Database:
        """The store, for one process."""
        from harness.databases.postgres import PostgresDatabase

        return PostgresDatabase(_conninfo(address))

    def inputs(self, address: str) -> InputTable:
        """Its outbox."""
        from harness.databases.postgres_inputs import PostgresInputs

        return PostgresInputs(_conninfo(address))


def _conninfo(address: str) -> str:
    try:
        return Path(address).read_text()
    except OSError as error:
        raise DatabaseError(f"nobody says how PostgreSQL is reached: {error}") from error
