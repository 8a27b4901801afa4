"""cdc: changes of users, written to three topics in one transaction; a projector then applies them to SQLite.

A change updates a user or deletes it (a tombstone). One user often has several changes soon after each other. The
first stage writes the user, its entry in a search index and a message that invalidates caches.

The projector applies the users to SQLite. It stores its position in the same SQLite transaction, because Kafka's
exactly-once guarantee does not cover a database.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.policy import Delivery
from workloads.model.workload import NULL_VALUES, Aggregate, Output, Workload, WorkloadStage

USERS = 150
APPLIED, USERS_TABLE = "store.applied", "store.users"
_NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Tony", "Leslie", "Donald", "Frances")


def change(rng: Random, n: int) -> FeedRecord:
    """Return the n-th change. Half of them concern a user that changed recently; one in eight deletes the user."""
    user = (n // 3) % USERS if rng.random() < 0.5 else rng.randrange(USERS)
    kind = "delete" if rng.random() < 0.125 else "update"
    body = {"change": n, "kind": kind, "name": rng.choice(_NAMES), "mail": f"user-{user}@example.org"}
    return FeedRecord(b"user-%d" % user, orjson.dumps(body))


def spread(record: InputRecord) -> Sequence[Output]:
    """Return the user, its entry in the search index, and the cache invalidation."""
    change_body = orjson.loads(record.value or b"")
    deleted = change_body["kind"] == "delete"
    user = None if deleted else orjson.dumps({"name": change_body["name"], "mail": change_body["mail"]})
    words = None if deleted else f"{change_body['name'].lower()} {change_body['mail']}".encode()
    return (
        Output("users", "user", record.key, user),
        Output("user-search-index", "index", record.key, words),
        Output("user-cache-invalidation", "forget", record.key, b"%d" % change_body["change"]),
    )


def applied(record: InputRecord) -> Sequence[Output]:
    """Return the row that records an applied change."""
    return (Output(APPLIED, "applied", record.key, record.value),)


def counts(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """Return (key, 1): each change adds one to the user's count."""
    return ((record.key or b"", 1),)


def changes(record: InputRecord) -> int | None:
    """Return the number of changes that the database has counted for a user, or None if the record has no value."""
    return int(record.value) if record.value else None


CDC = Workload(
    name="cdc",
    summary="changes -> users, user-search-index, user-cache-invalidation; users -> tables in SQLite",
    feed=(Feed("changes", change),),
    stages=(
        WorkloadStage(
            "cdc",
            ("changes",),
            ("users", "user-search-index", "user-cache-invalidation"),
            spread,
            ordered=True,
        ),
        WorkloadStage(
            "projector",
            ("users",),
            (APPLIED, USERS_TABLE),
            applied,
            ordered=True,
            aggregate=Aggregate(USERS_TABLE, counts, changes),
            delivery=Delivery.STORED,
        ),
    ),
    shapes=frozenset({NULL_VALUES}),
    tables={APPLIED: "sqlite", USERS_TABLE: "sqlite"},
)
