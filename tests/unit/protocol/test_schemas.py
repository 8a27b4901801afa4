"""Messages are decoded and encoded by the schemas, versions and tagged fields included."""

import random

import pytest

from harness.model.kafka_protocol import error_codes
from harness.protocol.responses import AddressMap, error_response, errors_in, set_errors
from harness.protocol.rules import Frame
from harness.protocol.schemas import UNKNOWN_TAGS, Schemas, UndecodableMessage, UnknownMessage
from tests.support.protocol_messages import every_message, random_message
from tests.support.protocol_schemas import small_schemas


@pytest.fixture
def schemas() -> Schemas:
    return small_schemas()


def test_every_message_survives_in_every_version(schemas: Schemas) -> None:
    rng = random.Random(1)
    for _, schema, version in every_message(schemas):
        for _ in range(20):
            message = random_message(rng, schema, version)
            encoded = schema.encode(message, version)
            decoded, end = schema.decode(memoryview(encoded), version)
            assert decoded == message and end == len(encoded)


def test_the_bytes_are_those_of_kafka(schemas: Schemas) -> None:
    body = {"TransactionalId": "ab", "ProducerId": 1, "ProducerEpoch": 2, "Committed": True}
    old = b"\x00\x02ab" + bytes(7) + b"\x01" + b"\x00\x02" + b"\x01"
    flexible = b"\x03ab" + bytes(7) + b"\x01" + b"\x00\x02" + b"\x01" + b"\x00"
    request = schemas.api("EndTxn").request
    assert (request.encode(body, 1), request.encode(body, 3)) == (old, flexible)


def test_tagged_fields_that_the_schema_lacks_are_kept(schemas: Schemas) -> None:
    request = schemas.api("EndTxn").request
    body = {"TransactionalId": "ab", "ProducerId": 1, "ProducerEpoch": 2, "Committed": True}
    encoded = request.encode(body, 3)[:-1] + b"\x01\x63\x02hi"
    decoded, _ = request.decode(memoryview(encoded), 3)
    assert decoded[UNKNOWN_TAGS] == {99: b"hi"} and request.encode(decoded, 3) == encoded


def test_a_message_that_is_cut_off_is_undecodable(schemas: Schemas) -> None:
    rng = random.Random(2)
    for _, schema, version in every_message(schemas):
        encoded = schema.encode(random_message(rng, schema, version), version)
        for size in range(len(encoded)):
            with pytest.raises(UndecodableMessage, match=schema.name):
                schema.decode(memoryview(encoded[:size]), version)


def test_any_bytes_are_a_message_or_an_error(schemas: Schemas) -> None:
    rng = random.Random(3)
    for _, schema, version in every_message(schemas):
        for _ in range(200):
            data = rng.randbytes(rng.randrange(60))
            try:
                message, end = schema.decode(memoryview(data), version)
            except UndecodableMessage:
                continue
            assert schema.decode(memoryview(schema.encode(message, version)), version)[0] == message
            assert end <= len(data)


def test_a_huge_count_allocates_nothing(schemas: Schemas) -> None:
    with pytest.raises(UndecodableMessage, match="more than the message has bytes"):
        schemas.api("Produce").response.decode(memoryview(b"\x7f\xff\xff\xff"), 3)


@pytest.mark.parametrize("version", [-1, 6, 99])
def test_a_version_that_the_schema_lacks_is_unknown(schemas: Schemas, version: int) -> None:
    with pytest.raises(UnknownMessage, match=f"version {version} of EndTxnRequest"):
        schemas.api("EndTxn").request.decode(memoryview(bytes(40)), version)


def test_an_api_that_the_schemas_lack_is_unknown(schemas: Schemas) -> None:
    with pytest.raises(UnknownMessage, match="no API Telepathy"):
        schemas.api("Telepathy")


def test_a_refusal_names_each_partition_of_the_request(schemas: Schemas) -> None:
    api = schemas.api("Produce")
    partitions = [{"Index": 0, "Records": None}, {"Index": 4, "Records": None}]
    request = {"TransactionalId": None, "Acks": -1, "TopicData": [{"Name": "a", "PartitionData": partitions}]}
    code = error_codes()["NOT_LEADER_OR_FOLLOWER"]
    body = error_response(api, request, 10, code)
    assert body["Responses"] == [
        {
            "Name": "a",
            "PartitionResponses": [
                {"Index": 0, "ErrorCode": code, "BaseOffset": 0},
                {"Index": 4, "ErrorCode": code, "BaseOffset": 0},
            ],
        }
    ]
    assert errors_in(api, body, 10) == ("NOT_LEADER_OR_FOLLOWER",)
    assert errors_in(api, set_errors(api, body, 10, 0), 10) == ()


def test_addresses_are_replaced_wherever_they_are(schemas: Schemas) -> None:
    endpoints = [{"NodeId": 1, "Host": "real", "Port": 9092}, {"NodeId": 9, "Host": "real", "Port": 9092}]
    frame = Frame("Produce", "response", 10, 1, None, {"Responses": [], "NodeEndpoints": endpoints})
    addresses = AddressMap({1: ("127.0.0.1", 4001)})
    assert addresses.rewrite(frame, schemas)
    assert [(each["Host"], each["Port"]) for each in frame.body["NodeEndpoints"]] == [
        ("127.0.0.1", 4001),
        ("127.0.0.1", 1),
    ]
    assert addresses.unknown_brokers == {9}
