"""What goes into the two pipelines, and what must come of it."""

import json


def compact(body):
    """JSON as Jackson writes it, for values are compared byte by byte."""
    return json.dumps(body, separators=(",", ":"))


def payment(rng, n):
    """The n-th payment: key and value. Some are not valid."""
    amount = rng.randint(-20, 500_00)
    body = {"payment_id": n, "amount": amount, "currency": rng.choice(["EUR", "SEK", "USD", "?"])}
    return f"account-{rng.randrange(500)}", compact(body)


def processed(topic, key, value, headers):
    """One processed payment for each payment."""
    body = json.loads(value)
    valid = body["amount"] > 0 and len(body["currency"]) == 3
    body["fee"] = 25 + body["amount"] // 100 if valid else 0
    body["status"] = "accepted" if valid else "rejected"
    return [("processed-payments", key, compact(body))]


def order(rng, n):
    """The n-th order: key and value."""
    body = {
        "order_id": n,
        "amount": rng.randint(1, 500),
        "currency": rng.choice(["EUR", "SEK"]),
        "region": rng.choice(["north", "east", "south", "west"]),
    }
    return f"customer-{rng.randrange(100)}", compact(body)


def totals(state, topic, key, value):
    """The account's line with its running total, and the region's line, of which the running total is not judged.

    `state` is of one customer, and holds the orders and the total of each of the customer's accounts.
    """
    ordered = json.loads(value)
    state = dict(state or {})
    currency = ordered["currency"]
    orders, total = state.get(currency, (0, 0))
    orders, total = orders + 1, total + ordered["amount"]
    state[currency] = orders, total
    line = {"order_id": ordered["order_id"], "amount": ordered["amount"]}
    account = {**line, "accounts_orders": orders, "accounts_total": total}
    customer = key.decode()
    return state, [
        ("accounts", f"{customer}/{currency}", compact(account)),
        ("regions", ordered["region"], compact(line)),
    ]
