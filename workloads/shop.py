"""shop: each purchase leads to one invoice and one shipment, and each invoice to one payment.

The first stage writes two topics in one transaction. The second stage reads one of them, so a leaked record of an
aborted transaction causes harm downstream.

Order is promised, for three reasons. First, one worker at a time consumes an input partition, in offset order, and
sends the outputs of one input before those of the next. Second, all records of a key are in one partition. Third, the
next owner of a partition starts at the last committed offset.
"""

from collections.abc import Sequence
from random import Random

import orjson

from harness.model.expectation import Feed, FeedRecord, InputRecord
from workloads.model.workload import Output, Workload, WorkloadStage

GOODS = ("apple", "book", "chair", "door", "engine")


def purchase(rng: Random, n: int) -> FeedRecord:
    """Return the n-th purchase. The customer is the key."""
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
    """Return an invoice and a shipment for one purchase."""
    purchase_body = orjson.loads(record.value or b"")
    invoice = {
        "purchase": purchase_body["purchase"],
        "customer": purchase_body["customer"],
        "amount": purchase_body["pieces"] * purchase_body["price"],
    }
    shipment = {
        "purchase": purchase_body["purchase"],
        "goods": purchase_body["goods"],
        "pieces": purchase_body["pieces"],
    }
    return (
        Output("invoices", "invoice", record.key, orjson.dumps(invoice)),
        Output("shipments", "shipment", purchase_body["goods"].encode(), orjson.dumps(shipment)),
    )


def pay(record: InputRecord) -> Sequence[Output]:
    """Return a payment for one invoice."""
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
