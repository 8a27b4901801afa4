"""orders: of each order four records, in four topics, or one dead letter; all in the transaction that moves the offset.

A reader never sees an order without its payment: of the four either all are visible or none. An order that cannot
be met is no error of the pipeline: its dead letter shares one fate with the offset, like everything else, so that
it is neither lost nor written twice.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

GOODS = ("apple", "book", "chair", "door", "engine")
INVALID_SHARE = 0.08
DEAD_LETTER, NOTIFICATION = "dead-letter", "notification"
LONG_EVERY, LONG_TERMS = 40, "All our offers are without engagement. " * 40
"""Every so many orders have a notification that is much longer than the others."""


def order(rng: Random, n: int) -> FeedRecord:
    """The n-th order: the customer is the key. Some ask for no pieces, some for what is not sold."""
    customer = f"customer-{rng.randrange(500)}"
    goods, pieces = rng.choice(GOODS), rng.randint(1, 9)
    if rng.random() < INVALID_SHARE:
        goods, pieces = rng.choice(((goods, 0), ("unicorn", pieces)))
    body = {"order": n, "customer": customer, "goods": goods, "pieces": pieces, "price": rng.randint(1, 500)}
    return FeedRecord(customer.encode(), orjson.dumps(body))


def take(record: InputRecord) -> Sequence[Output]:
    """The four records of an order, or its dead letter."""
    told = orjson.loads(record.value or b"")
    number, goods, pieces = told["order"], told["goods"], told["pieces"]
    if goods not in GOODS or pieces < 1:
        why = f"{goods} is not sold" if goods not in GOODS else "no pieces are asked for"
        letter = {"order": number, "why": why}
        return (Output("dead-letters", DEAD_LETTER, record.key, orjson.dumps(letter)),)
    amount = pieces * told["price"]
    terms = {"terms": LONG_TERMS} if number % LONG_EVERY == 0 else {}

    def output(topic: str, output_name: str, key: bytes | None, **body: object) -> Output:
        return Output(topic, output_name, key, orjson.dumps({"order": number, **body}))

    return (
        output("orders", "order", record.key, goods=goods, pieces=pieces),
        output("inventory", "reservation", goods.encode(), goods=goods, pieces=-pieces),
        output("payments", "payment", record.key, amount=amount),
        output("notifications", NOTIFICATION, record.key, text=f"{pieces} {goods} for {amount}", **terms),
    )


ORDERS = Workload(
    name="orders",
    summary="incoming -> orders + inventory + payments + notifications, or dead-letters",
    feed=(Feed("incoming", order),),
    stages=(
        WorkloadStage(
            "orders",
            ("incoming",),
            ("orders", "inventory", "payments", "notifications", "dead-letters"),
            take,
            output_names=frozenset({DEAD_LETTER, NOTIFICATION}),
            ordered=True,
        ),
    ),
    must_occur={"dead-letters": "no invalid order came in"},
)
