"""The inputs of the pipeline and their expected outputs. Keys and values are bytes, text or None."""

import json
from random import Random
from typing import Any


def purchase(rng: Random, n: int) -> tuple[str, str]:
    """Return key and value of the n-th input. Take random values only from `rng`, so that a seed repeats them.

    To set more, return a dict: {"key", "value", "headers", "timestamp_ms", "partition"}.
    """
    body = {"purchase_id": n, "pieces": rng.randint(1, 9), "price": rng.randint(1, 500)}
    return f"customer-{rng.randrange(1000)}", json.dumps(body)


def outputs(
    topic: str, key: bytes | None, value: bytes | None, headers: dict[str, Any]
) -> list[tuple[str, bytes | None, str]]:
    """Return (topic, key, value) of each output that this input must lead to. Return [] if it leads to no output.

    The function may have more parameters: `timestamp_ms` and `partition` of the input.
    """
    purchase_body = json.loads(value or b"")
    invoice = {
        "purchase_id": purchase_body["purchase_id"],
        "amount": purchase_body["pieces"] * purchase_body["price"],
    }
    return [("invoices", key, json.dumps(invoice))]


# If an output depends on earlier inputs, use fold = "expect.py:spent" in [expect] instead. Each input key has its own
# state, which is None at first.
#
# def spent(state, topic, key, value):
#     state = (state or 0) + json.loads(value)["pieces"]
#     return state, [("invoices", key, json.dumps({"pieces": state}))]
