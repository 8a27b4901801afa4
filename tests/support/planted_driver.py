"""A driver of `fencepost explore` with the mistake that its first argument names. Its client is librdkafka."""

import json
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

MISTAKE = sys.argv[1]


class Client:
    """The client of one transactional id."""

    def __init__(self, command: dict[str, Any]) -> None:
        self.bootstrap = command["bootstrap"]
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": command["transactional_id"],
                "transaction.timeout.ms": command["transaction_timeout_ms"],
                "linger.ms": 0,
            }
        )
        for topic in command["topics"]:
            self.producer.list_topics(topic, 10)
        self.producer.init_transactions(10)

    def begin(self, command: dict[str, Any]) -> dict[str, Any]:
        self.producer.begin_transaction()
        return {}

    def send(self, command: dict[str, Any]) -> dict[str, Any]:
        offsets: list[int | None] = []
        for record in command["records"]:
            self.producer.produce(
                record["topic"],
                record["value"],
                record["key"],
                partition=record["partition"],
                headers=[tuple(pair) for pair in record["headers"]],
                on_delivery=lambda error, message: offsets.append(None if error else message.offset()),
            )
        self.producer.flush(10)
        if len(offsets) < len(command["records"]) or None in offsets:
            return {"ok": False, "error": "a record was not acknowledged", "meaning": "abortable"}
        return {"offsets": offsets}

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": command["group"]})
        positions = [
            TopicPartition(each["topic"], each["partition"], each["offset"], each["metadata"])
            for each in command["offsets"]
        ]
        if MISTAKE == "commits-offsets-outside":
            consumer.commit(offsets=positions, asynchronous=False)
        else:
            self.producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 10)
        consumer.close()
        return {}

    def commit(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            self.producer.commit_transaction(10)
        except KafkaException:
            if MISTAKE != "ignores-the-error-of-a-commit":
                raise
        return {}

    def abort(self, command: dict[str, Any]) -> dict[str, Any]:
        self.producer.abort_transaction(10)
        return {}


def main() -> None:
    """Answer each line."""
    client: Client | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "init":
                client = Client(command)
                answer: dict[str, Any] = {"version": "1"}
            else:
                answer = getattr(client, command["do"])(command)
            answer = {"ok": True, **answer}
        except KafkaException as problem:
            error = problem.args[0]
            meaning = "abortable" if error.txn_requires_abort() else "fatal" if error.fatal() else "retriable"
            answer = {
                "error": str(error),
                "meaning": meaning if error.retriable() or meaning != "retriable" else "fatal",
            }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
