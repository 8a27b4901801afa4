"""What goes into the pipeline, and what must come of it. Keys and values are bytes, text or None."""

import json
from random import Random
from typing import Any


def purchase(rng: Random, n: int) -> tuple[str, str]:
    """The n-th input: key and value. Use `rng` for all that is random, so that a seed repeats it."""
    body = {"purchase_id": n, "pieces": rng.randint(1, 9), "price": rng.randint(1, 500)}
    return f"customer-{rng.randrange(1000)}", json.dumps(body)


def outputs(
    topic: str, key: bytes | None, value: bytes | None, headers: dict[str, Any]
) -> list[tuple[str, bytes | None, str]]:
    """What this input must lead to: (topic, key, value) of each output. An empty list: nothing."""
    bought = json.loads(value or b"")
    invoice = {"purchase_id": bought["purchase_id"], "amount": bought["pieces"] * bought["price"]}
    return [("invoices", key, json.dumps(invoice))]


# Instead, where an output depends on what came before: fold = "expect.py:spent" in [expect]. Each input key has a state
# of its own, and the first one is None.
#
# def spent(state, topic, key, value):
#     state = (state or 0) + json.loads(value)["pieces"]
#     return state, [("invoices", key, json.dumps({"pieces": state}))]
