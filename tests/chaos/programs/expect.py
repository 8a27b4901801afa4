"""The inputs of the totals, and the expected outputs."""

import json


def payment(rng, n):
    """Return key and value of the n-th payment."""
    return f"account-{rng.randrange(40)}", str(rng.randint(1, 100))


def total(state, topic, key, value):
    """Expect the total of the account."""
    state = (state or 0) + int(value)
    return state, [("totals", key, json.dumps({"total": state}))]
