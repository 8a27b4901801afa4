"""What goes into the clearing of payments, and what must come of it."""

import json


def payment(rng, n):
    """The n-th payment: key and value."""
    body = {"payment_id": n, "pieces": rng.randint(1, 4), "price": rng.randint(1, 500)}
    return f"customer-{rng.randrange(100)}", json.dumps(body)


def outputs(topic, key, value, headers):
    """A dead letter for what is too large; nothing for one piece; else a receipt."""
    paid = json.loads(value)
    out = json.dumps({"payment_id": paid["payment_id"]})
    if paid["price"] > 400:
        return [("dead-letters", key, out)]
    return [("receipts", key, out)] if paid["pieces"] > 1 else []
