"""The inputs of the three pipelines and their expected outputs."""

import json


def compact(body):
    """Return JSON without spaces, as Jackson writes it."""
    return json.dumps(body, separators=(",", ":"))


def payment(rng, n):
    """Return key and value of the n-th payment. Some are not valid."""
    amount = rng.randint(-20, 500_00)
    body = {"payment_id": n, "amount": amount, "currency": rng.choice(["EUR", "SEK", "USD", "?"])}
    return f"account-{rng.randrange(500)}", compact(body)


def processed(topic, key, value, headers):
    """Return one processed payment for each payment."""
    body = json.loads(value)
    valid = body["amount"] > 0 and len(body["currency"]) == 3
    body["fee"] = 25 + body["amount"] // 100 if valid else 0
    body["status"] = "accepted" if valid else "rejected"
    return [("processed-payments", key, compact(body))]


def order(rng, n):
    """Return key and value of the n-th order."""
    body = {
        "order_id": n,
        "amount": rng.randint(1, 500),
        "currency": rng.choice(["EUR", "SEK"]),
        "region": rng.choice(["north", "east", "south", "west"]),
    }
    return f"customer-{rng.randrange(100)}", compact(body)


def totals(state, topic, key, value):
    """Return the new state of a key, and the outputs that lead from one record.

    An order leads to a record in each of two repartition topics. Such a record adds the order to the running total of its
    key, and leads to the new total in the output topic and in the changelog. The state of a key is its number of orders
    and its total. Orders are added in the order of the repartition topic.
    """
    body = json.loads(value)
    if topic == "orders":
        account = f"{key.decode()}/{body['currency']}"
        return None, [
            ("totals-accounts-repartition", account, value),
            ("totals-regions-repartition", body["region"], value),
        ]
    name = topic.split("-")[1]
    orders, total = state or (0, 0)
    orders, total = orders + 1, total + body["amount"]
    line = {"order_id": body["order_id"], "amount": body["amount"], "orders": orders, "total": total}
    return (orders, total), [(name, key, compact(line)), (f"totals-{name}-changelog", key, compact(line))]


COUNTRIES = ["DE", "FR", "SE", "US"]


def customer_order(rng, n):
    """Return key and value of the n-th order. The customer is not the key."""
    return f"order-{n}", compact({"order_id": n, "customer": f"customer-{rng.randrange(100)}"})


def country_of(customer):
    """Return the country of a customer, as customers.jsonl has it."""
    return COUNTRIES[int(customer.rpartition("-")[2]) % len(COUNTRIES)]


def billed(topic, key, value, headers):
    """Return one billed order for each order. It is written when both the order and its customer are known."""
    if topic == "customers":
        return []
    body = json.loads(value)
    return [("billed-orders", key, compact(body | {"country": country_of(body["customer"])}))]
