"""The kinds of stores by name: a new one is one file and one line here."""

from harness.databases.interface import DatabaseKind
from harness.databases.postgres_kind import PostgresKind
from harness.databases.sqlite import Sqlite

DATABASES: dict[str, DatabaseKind] = {kind.name: kind for kind in (Sqlite(), PostgresKind())}
