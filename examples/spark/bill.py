"""Bill purchases with Spark Structured Streaming: offsets in its checkpoint, and an at-least-once sink.

If a batch is interrupted, Spark runs it again from the checkpoint, so outputs that it had already written are in the
topics twice. The source is a streaming data source in Python with confluent-kafka, for environments without Spark's
Kafka connector.
"""

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

options = argparse.ArgumentParser()
options.add_argument("--brokers", required=True)
options.add_argument("--checkpoint", required=True)
options = options.parse_args()
TOPIC = "purchases"


class Slice(InputPartition):
    """A range of offsets in one partition of the topic: from `first` up to, but not including, `following`."""

    def __init__(self, partition, first, following):
        self.partition, self.first, self.following = partition, first, following


class KafkaReader(DataSourceStreamReader):
    """Read the offsets of a topic that Spark asks for. Spark stores the offsets."""

    def __init__(self, brokers):
        self.brokers = brokers

    def _consumer(self):
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def initialOffset(self):  # noqa: N802  Spark gives the name
        return {"0": 0}

    def latestOffset(self):  # noqa: N802
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            partitions = consumer.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
            return {
                str(n): consumer.get_watermark_offsets(TopicPartition(TOPIC, n), timeout=30)[1]
                for n in partitions
            }
        finally:
            consumer.close()

    def partitions(self, start, end):
        return [
            Slice(int(n), start.get(n, 0), following)
            for n, following in end.items()
            if following > start.get(n, 0)
        ]

    def read(self, partition):
        from confluent_kafka import KafkaError, TopicPartition

        consumer = self._consumer()
        consumer.assign([TopicPartition(TOPIC, partition.partition, partition.first)])
        try:
            position = partition.first
            while position < partition.following:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error():
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise RuntimeError(message.error().str())
                    position = message.offset()
                    continue
                position = message.offset() + 1
                if message.offset() < partition.following:
                    yield (message.key().decode(), message.value().decode())
        finally:
            consumer.close()


class Kafka(DataSource):
    """`spark.readStream.format("kafka-in-python")`."""

    @classmethod
    def name(cls):
        return "kafka-in-python"

    def schema(self):
        return "key string, value string"

    def streamReader(self, schema):  # noqa: N802
        return KafkaReader(self.options["brokers"])


def write(batch, number):
    """Send an invoice and a shipment for each purchase, and wait until all are acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": options.brokers, "enable.idempotence": True})
    for row in batch.toLocalIterator():
        purchase = json.loads(row.value)
        invoice = {"purchase_id": purchase["purchase_id"], "amount": purchase["pieces"] * purchase["price"]}
        shipment = {"purchase_id": purchase["purchase_id"], "pieces": purchase["pieces"]}
        producer.produce("invoices", json.dumps(invoice), row.key)
        producer.produce("shipments", json.dumps(shipment), row.key)
        if producer.flush(60):  # wait for each purchase before the next one
            raise RuntimeError(f"batch {number}: an output was not acknowledged within 60 s")


spark = (
    SparkSession.builder.appName("billing")
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.dataSource.register(Kafka)
stream = spark.readStream.format("kafka-in-python").option("brokers", options.brokers).load()
query = (
    stream.writeStream.foreachBatch(write)
    .option("checkpointLocation", options.checkpoint)
    .start()
)
print("started", flush=True)
query.awaitTermination()
