"""outbox: orders and their outbox rows in one database transaction, relays that publish the rows, and a consumer.

A service that writes both its database and Kafka can crash between the two writes, and then they differ. So this
service writes only its database: the order, and an outbox row that describes it. Relays publish the rows to Kafka at
least once. The consumer applies each row once, identified by the row's number, even if the topic holds it twice.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from harness.model.vocabulary import Guarantee
from workloads.model.policy import Delivery
from workloads.model.workload import Output, Workload, WorkloadStage

OUTBOX, APPLIED = "store.outbox", "store.applied"
EVENTS = "order-events"
_GOODS = ("apple", "book", "chair", "door", "engine")


def order(rng: Random, n: int) -> FeedRecord:
    """Return the n-th order. The customer is the key."""
    body = {
        "order": n,
        "goods": rng.choice(_GOODS),
        "pieces": rng.randint(1, 9),
        "price": rng.randint(1, 500),
    }
    return FeedRecord(b"customer-%d" % rng.randrange(1000), orjson.dumps(body))


def publish(record: InputRecord) -> Sequence[Output]:
    """Return the event that describes an order."""
    body = orjson.loads(record.value or b"")
    event = {"event": "order-placed", "order": body["order"], "amount": body["pieces"] * body["price"]}
    return (Output(EVENTS, "event", record.key, orjson.dumps(event)),)


def apply(record: InputRecord) -> Sequence[Output]:
    """Return the row that the consumer stores for an event."""
    return (Output(APPLIED, "applied", record.key, record.value),)


OUTBOX_WORKLOAD = Workload(
    name="outbox",
    summary="orders with an outbox in PostgreSQL -> order-events -> a table in PostgreSQL, once for each row",
    feed=(Feed(OUTBOX, order),),
    stages=(
        WorkloadStage(
            "relay",
            (OUTBOX,),
            (EVENTS,),
            publish,
            delivery=Delivery.RELAYED,
            guarantee=Guarantee.AT_LEAST_ONCE,
        ),
        WorkloadStage("consumer", (EVENTS,), (APPLIED,), apply, delivery=Delivery.KEYED),
    ),
    tables={OUTBOX: "postgres", APPLIED: "postgres"},
)
