"""The inputs of the clearing of payments, and the expected outputs."""

import json


def payment(rng, n):
    """Return key and value of the n-th payment."""
    body = {"payment_id": n, "pieces": rng.randint(1, 4), "price": rng.randint(1, 500)}
    return f"customer-{rng.randrange(100)}", json.dumps(body)


def outputs(topic, key, value, headers):
    """Expect a dead letter for a large payment, nothing for a payment of one piece, and a receipt otherwise."""
    paid = json.loads(value)
    out = json.dumps({"payment_id": paid["payment_id"]})
    if paid["price"] > 400:
        return [("dead-letters", key, out)]
    return [("receipts", key, out)] if paid["pieces"] > 1 else []
