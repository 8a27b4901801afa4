"""The inputs of the pipeline and their expected outputs."""

import json


def purchase(rng, n):
    """Return key and value of the n-th purchase."""
    body = {"purchase_id": n, "pieces": rng.randint(1, 9), "price": rng.randint(1, 500)}
    return f"customer-{rng.randrange(1000)}", json.dumps(body)


def outputs(topic, key, value, headers):
    """Return an invoice and a shipment for a purchase."""
    purchase = json.loads(value)
    invoice = {"purchase_id": purchase["purchase_id"], "amount": purchase["pieces"] * purchase["price"]}
    shipment = {"purchase_id": purchase["purchase_id"], "pieces": purchase["pieces"]}
    return [("invoices", key, json.dumps(invoice)), ("shipments", key, json.dumps(shipment))]
