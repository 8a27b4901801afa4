"""The requests that the clients of workloads and the brokers never send."""

import pytest

from harness.environment.versions import client_versions, kafka_version
from harness.model.kafka_protocol import BROKER, Sender, why_never_sent

JAVA = Sender("java", transaction_version=2, client_transaction_version=2)
LIBRDKAFKA = Sender("librdkafka", transaction_version=2)


@pytest.mark.parametrize(
    ("sender", "api", "reason"),
    [
        (
            JAVA,
            "AddPartitionsToTxn",
            "under transaction version 2 the Java client sends no AddPartitionsToTxn",
        ),
        (JAVA, "AddOffsetsToTxn", "choose --client librdkafka, or --set transaction-version=1"),
        (JAVA, "TxnOffsetCommit", ""),
        (Sender("java", 1, 2), "AddPartitionsToTxn", ""),
        (Sender("java", 2, 0), "AddPartitionsToTxn", ""),
        (Sender("java", None, 2), "AddPartitionsToTxn", ""),
        (LIBRDKAFKA, "AddPartitionsToTxn", ""),
        (LIBRDKAFKA, "JoinGroup", ""),
        (LIBRDKAFKA, "ConsumerGroupHeartbeat", "choose --group-protocol consumer"),
        (Sender("java", group_protocol="consumer"), "ConsumerGroupHeartbeat", ""),
        (Sender("java", group_protocol="consumer"), "JoinGroup", "choose --group-protocol classic"),
        (Sender("java", group_protocol="consumer"), "Heartbeat", "sends no Heartbeat (KIP-848)"),
        (LIBRDKAFKA, "WriteTxnMarkers", "only brokers send WriteTxnMarkers, and no client does"),
        (LIBRDKAFKA, "Vote", "send no Vote: choose another API"),
        (LIBRDKAFKA, "ShareFetch", "send no ShareFetch: choose another API"),
        (
            Sender("java", transactional=False),
            "EndTxn",
            "a client without a transactional id sends no EndTxn",
        ),
        (Sender("java", transactional=False), "Produce", ""),
        (Sender("java", in_group=False), "OffsetCommit", "a client without a group sends no OffsetCommit"),
        (Sender(BROKER), "WriteTxnMarkers", ""),
        (Sender(BROKER), "AddPartitionsToTxn", ""),
        (Sender(BROKER), "FindCoordinator", ""),
        (Sender(BROKER), "EndTxn", "a broker sends no EndTxn to other brokers: leave out links=peer"),
    ],
)
def test_a_request_that_is_never_sent_has_a_reason(sender: Sender, api: str, reason: str) -> None:
    why = why_never_sent(api, sender)
    assert reason in why if reason else not why


def test_every_pinned_java_client_supports_what_the_kafka_of_its_version_has() -> None:
    for client in client_versions():
        if client.client == "java" and client.version != "3.9.1":  # of which no Kafka is pinned
            assert client.transaction_version == max(kafka_version(client.version).transaction_versions)
        elif client.client == "librdkafka":
            assert client.transaction_version == 0
