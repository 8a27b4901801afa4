"""orders: each order leads to four records in four topics, or to one dead letter, in the transaction with the offset.

A reader never sees an order without its payment: it sees all four records or none. An invalid order is not an error
of the pipeline. Its dead letter is in the same transaction as the offset, so it is neither lost nor written twice.
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
"""Every `LONG_EVERY`-th order has a notification that is much longer than the others."""


def order(rng: Random, n: int) -> FeedRecord:
    """Return the n-th order. The customer is the key.

    A few orders are invalid: they are for zero pieces, or for goods that are not sold.
    """
    customer = f"customer-{rng.randrange(500)}"
    goods, pieces = rng.choice(GOODS), rng.randint(1, 9)
    if rng.random() < INVALID_SHARE:
        goods, pieces = rng.choice(((goods, 0), ("unicorn", pieces)))
    body = {"order": n, "customer": customer, "goods": goods, "pieces": pieces, "price": rng.randint(1, 500)}
    return FeedRecord(customer.encode(), orjson.dumps(body))


def take(record: InputRecord) -> Sequence[Output]:
    """Return the four records of an order, or its dead letter."""
    order_body = orjson.loads(record.value or b"")
    number, goods, pieces = order_body["order"], order_body["goods"], order_body["pieces"]
    if goods not in GOODS or pieces < 1:
        reason = f"{goods} is not sold" if goods not in GOODS else "the number of pieces is 0"
        letter = {"order": number, "why": reason}
        return (Output("dead-letters", DEAD_LETTER, record.key, orjson.dumps(letter)),)
    amount = pieces * order_body["price"]
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
    must_occur={"dead-letters": "there was no invalid order"},
)
