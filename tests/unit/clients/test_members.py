"""How workers are members of their group: what the options say, and what the libraries are told."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from fencepost.runs.planning import session_timeout_ms
from fencepost.runs.process import group_settings
from harness.clients import java_consumer, librdkafka
from harness.clients.interface import (
    DEFAULT_GROUP,
    SESSION_TIMEOUT_MS,
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    GroupSettings,
)
from harness.clients.librdkafka_client import LibrdkafkaConsumer
from harness.cluster.config import BROKER_SETTINGS
from harness.common.errors import UsageError
from harness.model.vocabulary import Isolation
from harness.processes.specs import MembershipSpec
from harness.settings.options import Options, parse_set
from tests.unit.test_options import KNOWN

ONE = ConsumerSettings("b", "g", "w-1.0", Isolation.READ_COMMITTED)


def told(**how: str) -> tuple[dict[str, object], dict[str, object]]:
    """The settings of both libraries."""
    group = GroupSettings(**how)
    return librdkafka.member(replace(ONE, group_settings=group)), java_consumer._group_properties(group)


@pytest.mark.parametrize("how", [{}, {"assignor": "eager"}, {"assignor": "cooperative"}])
def test_a_classic_member_has_its_time_outs_and_its_assignor(how: dict[str, str]) -> None:
    for settings in told(**how):
        assert settings["session.timeout.ms"] == 2_000
        assert "group.protocol" not in settings
        assert ("partition.assignment.strategy" in settings) == bool(how)
        assert "group.instance.id" not in settings


def test_a_member_of_the_consumer_protocol_leaves_to_the_brokers_what_is_theirs() -> None:
    for settings in told(protocol="consumer", instance_id="w-1"):
        assert settings["group.protocol"] == "consumer" and settings["group.instance.id"] == "w-1"
        forbidden = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
        assert forbidden.isdisjoint(settings)
    assert BROKER_SETTINGS["group.consumer.session.timeout.ms"] == "2000"


def test_a_stranger_does_not_take_the_place_of_a_static_member() -> None:
    assert (
        replace(ONE, group_settings=GroupSettings(instance_id="w-1")).without_membership().group_settings
        == DEFAULT_GROUP
    )


def test_a_static_member_goes_by_the_name_that_its_replacement_has_too() -> None:
    assert group_settings(MembershipSpec(static=True), "shop-1").instance_id == "shop-1"
    assert group_settings(MembershipSpec(), "shop-1") == DEFAULT_GROUP


def test_an_assignor_does_not_go_with_the_consumer_protocol() -> None:
    with pytest.raises(UsageError, match="KIP-848"):
        Options(group_protocol="consumer", assignor="eager").validated(KNOWN)
    Options(group_protocol="consumer", static_membership=True).validated(KNOWN)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False)])
def test_a_switch_is_true_or_false(text: str, value: bool) -> None:
    assert parse_set(f"static-membership={text}") == {"static-membership": value}
    with pytest.raises(UsageError, match="true or false"):
        parse_set("static-membership=yes")


def test_the_session_of_the_consumer_protocol_is_as_long_as_the_brokers_say() -> None:
    settings = {"group.consumer.session.timeout.ms": "9000"}
    consumer = Options(group_protocol="consumer", settings=settings)
    assert session_timeout_ms(consumer) == 9_000
    assert session_timeout_ms(replace(consumer, settings={})) == SESSION_TIMEOUT_MS
    assert session_timeout_ms(replace(consumer, group_protocol="classic")) == SESSION_TIMEOUT_MS


def test_an_error_of_one_partition_is_no_sign_that_nothing_is_committed() -> None:
    class Told:
        topic, partition, offset = "in", 0, -1001
        error = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)

    class Asked:
        def committed(self, *_: object, **__: object) -> list[Told]:
            return [Told()]

    member = object.__new__(LibrdkafkaConsumer)
    member._consumer = Asked()
    with pytest.raises(ClientError) as met:
        member.committed([("in", 0)], 1.0)
    assert met.value.meaning is ErrorMeaning.RETRIABLE
