"""Bill purchases, and send the offsets with the name of the group alone, without the generation of the consumer.

This looks right. But nothing stops an instance that was paused: its transactional id is random, so no other instance
fences it, and without a generation the group accepts its offsets (KIP-447).
"""

import argparse
import json
import signal
import sys
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

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
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": 6000,
    }
)
group_alone = Consumer({"bootstrap.servers": options.brokers, "group.id": options.prefix + "billing"}).consumer_group_metadata()
transactional_id = f"billing-{uuid.uuid4().hex[:12]}"
producer = Producer({"bootstrap.servers": options.brokers, "transactional.id": transactional_id})
producer.init_transactions()
consumer.subscribe([options.prefix + "purchases"])


def rewind():
    """Seek back to the committed offsets, because the open transaction was aborted."""
    assigned = consumer.assignment()
    for position in consumer.committed(assigned, timeout=30) if assigned else []:
        consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))


while running:
    batch = [message for message in consumer.consume(50, timeout=0.5) if not message.error()]
    if not batch:
        continue
    try:
        producer.begin_transaction()
        for message in batch:
            purchase = json.loads(message.value())
            invoice = {"purchase_id": purchase["purchase_id"], "amount": purchase["pieces"] * purchase["price"]}
            shipment = {"purchase_id": purchase["purchase_id"], "pieces": purchase["pieces"]}
            producer.produce(options.prefix + "invoices", json.dumps(invoice), message.key())
            producer.produce(options.prefix + "shipments", json.dumps(shipment), message.key())
        positions = {}
        for message in batch:
            positions[message.topic(), message.partition()] = message.offset() + 1
        offsets = [TopicPartition(*topic_partition, offset) for topic_partition, offset in positions.items()]
        producer.send_offsets_to_transaction(offsets, group_alone)
        producer.commit_transaction()
    except KafkaException as error:
        kind = error.args[0]
        if not kind.txn_requires_abort():
            sys.exit(f"{transactional_id} stops: {kind.str()}")  # for example because it was fenced
        producer.abort_transaction()
        rewind()

consumer.close()
