"""The inputs of the copier, and the copy that each of them must lead to."""

import json


def payment(rng, n):
    return f"customer-{rng.randrange(50)}", json.dumps({"payment_id": n, "amount": rng.randrange(1, 500)})


def copies(topic, key, value, headers):
    return [("copies", key, value)]
