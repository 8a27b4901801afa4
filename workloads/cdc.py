"""cdc: changes of users, to three topics in one transaction; and behind them a projector into a real store.

A change sets a user or deletes it (a tombstone), several of one user in a row. The first stage writes the user, its
entry in a search index and the word that caches must forget it. The projector applies the users to SQLite, with
its position in SQLite's own transaction: Kafka's exactly-once ends at Kafka, and this is how it goes on.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.policy import Delivery
from workloads.model.workload import NULL_VALUES, Aggregate, Output, Workload, WorkloadStage

USERS = 150
APPLIED, KEPT = "store.applied", "store.users"
_NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Tony", "Leslie", "Donald", "Frances")


def change(rng: Random, n: int) -> FeedRecord:
    """The n-th change: of a user that changed a moment ago, or of another; one in eight deletes."""
    user = (n // 3) % USERS if rng.random() < 0.5 else rng.randrange(USERS)
    kind = "delete" if rng.random() < 0.125 else "update"
    body = {"change": n, "kind": kind, "name": rng.choice(_NAMES), "mail": f"user-{user}@example.org"}
    return FeedRecord(b"user-%d" % user, orjson.dumps(body))


def spread(record: InputRecord) -> Sequence[Output]:
    """The user, its entry in the index, and the word to the caches."""
    told = orjson.loads(record.value or b"")
    deleted = told["kind"] == "delete"
    user = None if deleted else orjson.dumps({"name": told["name"], "mail": told["mail"]})
    words = None if deleted else f"{told['name'].lower()} {told['mail']}".encode()
    return (
        Output("users", "user", record.key, user),
        Output("user-search-index", "index", record.key, words),
        Output("user-cache-invalidation", "forget", record.key, b"%d" % told["change"]),
    )


def applied(record: InputRecord) -> Sequence[Output]:
    """The row that says that a user's change was applied."""
    return (Output(APPLIED, "applied", record.key, record.value),)


def counts(record: InputRecord) -> Sequence[tuple[bytes, int]]:
    """Each change counts once."""
    return ((record.key or b"", 1),)


def changes(record: InputRecord) -> int | None:
    """How many changes the store has counted of a user."""
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
            (APPLIED, KEPT),
            applied,
            ordered=True,
            aggregate=Aggregate(KEPT, counts, changes),
            delivery=Delivery.STORED,
        ),
    ),
    shapes=frozenset({NULL_VALUES}),
    tables={APPLIED: "sqlite", KEPT: "sqlite"},
)
