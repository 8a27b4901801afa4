"""What goes into the totals, and what must come of it."""

import json


def payment(rng, n):
    """The n-th payment."""
    return f"account-{rng.randrange(40)}", str(rng.randint(1, 100))


def total(state, topic, key, value):
    """The total of its account."""
    state = (state or 0) + int(value)
    return state, [("totals", key, json.dumps({"total": state}))]
