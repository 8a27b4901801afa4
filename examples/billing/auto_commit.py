"""Bill purchases with the client's defaults: auto-commit and no transactions.

The client commits the offset of a polled purchase some seconds later, even if the purchase was not billed.
"""

import argparse
import json
import signal

from confluent_kafka import Consumer, Producer

options = argparse.ArgumentParser()
options.add_argument("--brokers", required=True)
options.add_argument("--prefix", default="", help="the prefix of its topics and its group, for a shared cluster")
options = options.parse_args()

running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)

consumer = Consumer(
    {
        "bootstrap.servers": options.brokers,
        "group.id": options.prefix + "billing",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
)
producer = Producer({"bootstrap.servers": options.brokers})
consumer.subscribe([options.prefix + "purchases"])


while running:
    batch = [message for message in consumer.consume(50, timeout=0.5) if not message.error()]
    if not batch:
        continue
    for message in batch:
        purchase = json.loads(message.value())
        invoice = {"purchase_id": purchase["purchase_id"], "amount": purchase["pieces"] * purchase["price"]}
        shipment = {"purchase_id": purchase["purchase_id"], "pieces": purchase["pieces"]}
        producer.produce(options.prefix + "invoices", json.dumps(invoice), message.key())
        producer.produce(options.prefix + "shipments", json.dumps(shipment), message.key())
    producer.poll(0)

producer.flush(30)
consumer.close()
