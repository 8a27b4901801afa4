"""shop: each purchase leads to one invoice and one shipment, and each invoice to one payment.

The first stage writes two topics in one transaction; the second reads what the first one wrote,
so that an aborted record that leaks does harm downstream.

Order is promised: one worker at a time takes an input partition, in its order, and sends what comes of one
input before it takes the next; a key goes to one partition; and who takes a partition over begins where the
last commit ended, behind all that it covers.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

GOODS = ("apple", "book", "chair", "door", "engine")


def purchase(rng: Random, n: int) -> FeedRecord:
    """The n-th purchase: the customer is the key."""
    customer = f"customer-{rng.randrange(1000)}"
    goods = rng.choice(GOODS)
    pieces = rng.randint(1, 9)
    body = {
        "purchase": n,
        "customer": customer,
        "goods": goods,
        "pieces": pieces,
        "price": rng.randint(1, 500),
    }
    return FeedRecord(customer.encode(), orjson.dumps(body))


def bill_and_ship(record: InputRecord) -> Sequence[Output]:
    """An invoice and a shipment for one purchase."""
    bought = orjson.loads(record.value or b"")
    invoice = {
        "purchase": bought["purchase"],
        "customer": bought["customer"],
        "amount": bought["pieces"] * bought["price"],
    }
    shipment = {"purchase": bought["purchase"], "goods": bought["goods"], "pieces": bought["pieces"]}
    return (
        Output("invoices", "invoice", record.key, orjson.dumps(invoice)),
        Output("shipments", "shipment", bought["goods"].encode(), orjson.dumps(shipment)),
    )


def pay(record: InputRecord) -> Sequence[Output]:
    """A payment for one invoice."""
    invoice = orjson.loads(record.value or b"")
    body = {"purchase": invoice["purchase"], "paid": invoice["amount"]}
    return (Output("payments", "payment", record.key, orjson.dumps(body)),)


SHOP = Workload(
    name="shop",
    summary="purchases -> invoices + shipments; invoices -> payments",
    feed=(Feed("purchases", purchase),),
    stages=(
        WorkloadStage("shop", ("purchases",), ("invoices", "shipments"), bill_and_ship, ordered=True),
        WorkloadStage("payments", ("invoices",), ("payments",), pay, ordered=True),
    ),
)
