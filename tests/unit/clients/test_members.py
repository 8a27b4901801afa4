"""The options of group membership, and the settings that they become in both client libraries."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from fencepost.runs.planning import session_timeout_ms
from fencepost.runs.process import group_settings
from harness.clients import in_process_jvm as jvm
from harness.clients import java_consumer, librdkafka
from harness.clients.interface import (
    DEFAULT_GROUP,
    SESSION_TIMEOUT_MS,
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    GroupSettings,
    ProducerSettings,
)
from harness.clients.librdkafka_client import LibrdkafkaConsumer
from harness.cluster.config import BROKER_SETTINGS
from harness.common.errors import UsageError
from harness.model.vocabulary import Isolation
from harness.processes.specs import MembershipSpec
from harness.settings.options import Options, parse_set
from tests.unit.test_options import KNOWN

SETTINGS = ConsumerSettings("b", "g", "w-1.0", Isolation.READ_COMMITTED)


def settings_of_both(**options: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the settings of both libraries."""
    group = GroupSettings(**options)
    return librdkafka.member(replace(SETTINGS, group_settings=group)), java_consumer._group_properties(group)


def test_clients_notice_new_partitions_within_five_seconds_and_read_them_from_the_start() -> None:
    producer = ProducerSettings("b")
    clients = [
        librdkafka.member(SETTINGS),
        librdkafka.reader("b", "r", Isolation.READ_COMMITTED),
        librdkafka.transactional_producer(producer, "id"),
        librdkafka.idempotent_producer(producer),
        librdkafka.plain_producer(producer),
    ]
    assert {settings["topic.metadata.refresh.interval.ms"] for settings in clients} == {5_000}
    assert jvm.COMMON["metadata.max.age.ms"] == 5_000
    assert clients[0]["auto.offset.reset"] == "earliest"


@pytest.mark.parametrize("options", [{}, {"assignor": "eager"}, {"assignor": "cooperative"}])
def test_a_classic_member_has_its_time_outs_and_its_assignor(options: dict[str, str]) -> None:
    for settings in settings_of_both(**options):
        assert settings["session.timeout.ms"] == 2_000
        assert "group.protocol" not in settings
        assert ("partition.assignment.strategy" in settings) == bool(options)
        assert "group.instance.id" not in settings


def test_a_member_of_the_consumer_protocol_does_not_set_what_the_brokers_set() -> None:
    for settings in settings_of_both(protocol="consumer", instance_id="w-1"):
        assert settings["group.protocol"] == "consumer" and settings["group.instance.id"] == "w-1"
        forbidden = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
        assert forbidden.isdisjoint(settings)
    assert BROKER_SETTINGS["group.consumer.session.timeout.ms"] == "2000"


def test_a_consumer_that_never_joins_has_no_instance_id() -> None:
    assert (
        replace(SETTINGS, group_settings=GroupSettings(instance_id="w-1")).without_membership().group_settings
        == DEFAULT_GROUP
    )


def test_a_static_member_has_the_name_of_its_worker_as_instance_id() -> None:
    assert group_settings(MembershipSpec(static=True), "shop-1").instance_id == "shop-1"
    assert group_settings(MembershipSpec(), "shop-1") == DEFAULT_GROUP


def test_an_assignor_is_refused_with_the_consumer_protocol() -> None:
    with pytest.raises(UsageError, match="KIP-848"):
        Options(group_protocol="consumer", assignor="eager").validated(KNOWN)
    Options(group_protocol="consumer", static_membership=True).validated(KNOWN)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False)])
def test_a_boolean_option_is_true_or_false(text: str, value: bool) -> None:
    assert parse_set(f"static-membership={text}") == {"static-membership": value}
    with pytest.raises(UsageError, match="true or false"):
        parse_set("static-membership=yes")


def test_the_brokers_set_the_session_time_out_of_the_consumer_protocol() -> None:
    settings = {"group.consumer.session.timeout.ms": "9000"}
    consumer = Options(group_protocol="consumer", settings=settings)
    assert session_timeout_ms(consumer) == 9_000
    assert session_timeout_ms(replace(consumer, settings={})) == SESSION_TIMEOUT_MS
    assert session_timeout_ms(replace(consumer, group_protocol="classic")) == SESSION_TIMEOUT_MS


def test_an_error_of_one_partition_does_not_mean_that_it_has_no_offset() -> None:
    class FailedPartition:
        topic, partition, offset = "in", 0, -1001
        error = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)

    class FakeConsumer:
        def committed(self, *_: object, **__: object) -> list[FailedPartition]:
            return [FailedPartition()]

    member = object.__new__(LibrdkafkaConsumer)
    member._consumer = FakeConsumer()
    with pytest.raises(ClientError) as failed:
        member.committed([("in", 0)], 1.0)
    assert failed.value.meaning is ErrorMeaning.RETRIABLE
