"""The protocol proxy reads and writes Kafka's messages as Kafka and another client do."""

import importlib
import json
import pkgutil
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage

from harness.environment.cache import cache_folder
from harness.environment.kafka import fetch_kafka, versions
from harness.model.kafka_protocol import APIS
from harness.protocol.frames import decode_response, encode_response, with_size
from harness.protocol.responses import AddressMap
from harness.protocol.rules import Frame
from harness.protocol.schemas import Schemas
from tests.support.kafka_messages import compare_with_kafka
from tests.support.protocol_messages import every_message, is_same, random_message

RECORDED = Path(__file__).parents[1] / "support" / "recorded_responses"


@pytest.mark.parametrize("version", [versions()[0], versions()[-1]])
def test_kafkas_own_classes_read_and_write_the_same_bytes(version: str) -> None:
    """tests/chaos/test_all_kafka_messages.py has the versions between."""
    compare_with_kafka(version)


def test_the_names_of_apis_are_those_of_the_pinned_versions() -> None:
    names: set[str] = set()
    for version in versions():
        schemas = Schemas.of_jar(fetch_kafka(version, cache_folder()).clients_jar)
        names |= {name for name in schemas.names if schemas.api(name).request.versions.last >= 0}
    assert names == APIS


def classes_of(kind: Any) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from classes_of(each)


def test_kafka_python_reads_and_writes_the_same_bytes() -> None:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        importlib.import_module(module.name)
    theirs = {each.__name__: each for each in classes_of(ApiMessage)}
    schemas = Schemas.of_jar(fetch_kafka(versions()[0], cache_folder()).clients_jar)
    rng, compared = random.Random(1), set()
    for _, schema, version in every_message(schemas):
        kind = theirs.get(schema.name)
        if kind is None or not kind.min_version <= version <= kind.max_version:
            continue
        for _ in range(5):
            message = random_message(rng, schema, version)
            if schema.name == "ApiVersionsResponse":
                message["ErrorCode"] = 0  # with an error, kafka-python reads it in version 0
            their_message = kind.decode(schema.encode(message, version), version=version)
            their_message._header = None  # it forgets to set this in some classes, and reads it in `encode`
            again = bytes(their_message.encode())
            decoded, end = schema.decode(memoryview(again), version)
            assert end == len(again), f"{schema.name}, version {version}"
            assert is_same(schema.fields, decoded, message, version), f"{schema.name}, version {version}"
        compared.add((schema.name, version))
    assert len(compared) > 300


def recorded_responses() -> Iterator[tuple[str, int, int, bytes]]:
    """Yield responses of real brokers: the version of Kafka, API, version and bytes without their size."""
    for path in sorted(RECORDED.glob("*.json")):
        for entry in json.loads(path.read_text()):
            yield (
                path.stem.removeprefix("kafka-"),
                entry["key"],
                entry["version"],
                bytes.fromhex(entry["answer"]),
            )


@pytest.mark.parametrize(("kafka_version", "key", "version", "content"), list(recorded_responses()))
def test_addresses_in_responses_of_real_brokers_are_replaced_and_nothing_else(
    kafka_version: str, key: int, version: int, content: bytes
) -> None:
    """The brokers advertised localhost and ports from 20000 on."""
    schemas = Schemas.of_jar(fetch_kafka(kafka_version, cache_folder()).clients_jar)
    api, raw = schemas.api(key), with_size(content)
    request = Frame(api.name, "request", version, 77, None, {})
    frame = decode_response(schemas, raw, request)
    assert encode_response(schemas, api, frame.version, frame.correlation, frame.body) == raw
    AddressMap({broker: ("proxy.example", 7_000 + broker) for broker in (1, 2, 3)}).rewrite(frame, schemas)
    rewritten = encode_response(schemas, api, frame.version, frame.correlation, frame.body)
    if api.name == "ApiVersions":
        assert len(rewritten) <= len(raw)
    else:
        assert b"127.0.0.1" in raw and b"127.0.0.1" not in rewritten
        assert rewritten.count(b"proxy.example") == raw.count(b"127.0.0.1")


def test_responses_of_two_versions_of_kafka_were_recorded() -> None:
    assert {(version, key) for version, key, _, _ in recorded_responses()} >= {
        (version, key) for version in (versions()[-1], versions()[0]) for key in (0, 1, 3, 10, 18, 60)
    }
