"""The kinds of stores by name: a new one is one file and one line here."""

from harness.stores.interface import StoreKind
from harness.stores.postgres_kind import PostgresKind
from harness.stores.sqlite import Sqlite

STORES: dict[str, StoreKind] = {kind.name: kind for kind in (Sqlite(), PostgresKind())}
