"""The kinds of databases by name. A new kind is a new file and a line here."""

from harness.databases.interface import DatabaseKind
from harness.databases.postgres_kind import PostgresKind
from harness.databases.sqlite import Sqlite

DATABASES: dict[str, DatabaseKind] = {kind.name: kind for kind in (Sqlite(), PostgresKind())}
