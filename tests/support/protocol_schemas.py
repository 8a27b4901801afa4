"""Schemas of a few messages, written as Kafka writes them, for tests that have no jar of Kafka."""

import json
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.protocol.schemas import Schemas


def _string(name: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "versions": versions, **more}


def _number(name: str, kind: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


ID = {"entityType": "transactionalId"}
ERROR = _number("ErrorCode", "int16")
THROTTLE = _number("ThrottleTimeMs", "int32")
PARTITION = _number("Index", "int32")
TOPIC = [_string("Name", "0-12", entityType="topicName"), _number("TopicId", "uuid", "13+")]


def _pair(key: int, name: str, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a request with these fields, and a response with an error code."""
    versions = {"validVersions": "0-5", "flexibleVersions": "3+"}
    return [
        {"apiKey": key, "type": "request", "name": f"{name}Request", "fields": fields, **versions},
        {
            "apiKey": key,
            "type": "response",
            "name": f"{name}Response",
            "fields": [THROTTLE, ERROR],
            **versions,
        },
    ]


def _address(versions: str) -> list[dict[str, Any]]:
    return [
        _number("NodeId", "int32", versions),
        _string("Host", versions),
        _number("Port", "int32", versions),
    ]


MESSAGES: list[dict[str, Any]] = [
    {
        "type": "header",
        "name": "RequestHeader",
        "validVersions": "1-2",
        "flexibleVersions": "2+",
        "fields": [
            _number("RequestApiKey", "int16"),
            _number("RequestApiVersion", "int16"),
            _number("CorrelationId", "int32"),
            _string("ClientId", "1+", nullableVersions="1+", flexibleVersions="none"),
        ],
    },
    {
        "type": "header",
        "name": "ResponseHeader",
        "validVersions": "0-1",
        "flexibleVersions": "1+",
        "fields": [_number("CorrelationId", "int32")],
    },
    {
        "apiKey": 26,
        "type": "request",
        "name": "EndTxnRequest",
        "validVersions": "0-5",
        "flexibleVersions": "3+",
        "fields": [
            _string("TransactionalId", **ID),
            _number("ProducerId", "int64"),
            _number("ProducerEpoch", "int16"),
            _number("Committed", "bool"),
        ],
    },
    {
        "apiKey": 26,
        "type": "response",
        "name": "EndTxnResponse",
        "validVersions": "0-5",
        "flexibleVersions": "3+",
        "fields": [THROTTLE, ERROR],
    },
    {
        "apiKey": 25,
        "type": "request",
        "name": "AddOffsetsToTxnRequest",
        "validVersions": "0-4",
        "flexibleVersions": "3+",
        "fields": [_string("TransactionalId", **ID), _string("GroupId", entityType="groupId")],
    },
    {
        "apiKey": 25,
        "type": "response",
        "name": "AddOffsetsToTxnResponse",
        "validVersions": "0-4",
        "flexibleVersions": "3+",
        "fields": [THROTTLE, ERROR],
    },
    *_pair(24, "AddPartitionsToTxn", [_string("TransactionalId", **ID)]),
    *_pair(27, "WriteTxnMarkers", [_number("ProducerId", "int64")]),
    *_pair(
        28,
        "TxnOffsetCommit",
        [
            _string("TransactionalId", **ID),
            _string("GroupId", entityType="groupId"),
            _number("GenerationIdOrMemberEpoch", "int32", "3+"),
        ],
    ),
    *_pair(14, "SyncGroup", [_string("GroupId", entityType="groupId"), _string("MemberId")]),
    *_pair(18, "ApiVersions", [_string("ClientSoftwareName", "3+"), _string("ClientSoftwareVersion", "3+")]),
    {
        "apiKey": 10,
        "type": "request",
        "name": "FindCoordinatorRequest",
        "validVersions": "0-6",
        "flexibleVersions": "3+",
        "fields": [
            _string("Key", "0-3"),
            _number("KeyType", "int8", "1+"),
            {"name": "CoordinatorKeys", "type": "[]string", "versions": "4+"},
        ],
    },
    {
        "apiKey": 10,
        "type": "response",
        "name": "FindCoordinatorResponse",
        "validVersions": "0-6",
        "flexibleVersions": "3+",
        "fields": [
            _number("ThrottleTimeMs", "int32", "1+"),
            _number("ErrorCode", "int16", "0-3"),
            *_address("0-3"),
            {
                "name": "Coordinators",
                "type": "[]Coordinator",
                "versions": "4+",
                "fields": [_string("Key", "4+"), *_address("4+"), _number("ErrorCode", "int16", "4+")],
            },
        ],
    },
    {
        "apiKey": 3,
        "type": "request",
        "name": "MetadataRequest",
        "validVersions": "0-13",
        "flexibleVersions": "9+",
        "fields": [],
    },
    {
        "apiKey": 3,
        "type": "response",
        "name": "MetadataResponse",
        "validVersions": "0-13",
        "flexibleVersions": "9+",
        "fields": [
            {
                "name": "Topics",
                "type": "[]MetadataResponseTopic",
                "versions": "0+",
                "fields": [
                    _string("Name", nullableVersions="12+", entityType="topicName"),
                    _number("TopicId", "uuid", "10+"),
                ],
            },
        ],
    },
    {
        "apiKey": 0,
        "type": "request",
        "name": "ProduceRequest",
        "validVersions": "3-13",
        "flexibleVersions": "9+",
        "fields": [
            _string("TransactionalId", nullableVersions="0+", **ID),
            _number("Acks", "int16"),
            {
                "name": "TopicData",
                "type": "[]TopicProduceData",
                "versions": "0+",
                "fields": [
                    *TOPIC,
                    {
                        "name": "PartitionData",
                        "type": "[]PartitionProduceData",
                        "versions": "0+",
                        "fields": [PARTITION, _number("Records", "records", nullableVersions="0+")],
                    },
                ],
            },
        ],
    },
    {
        "apiKey": 0,
        "type": "response",
        "name": "ProduceResponse",
        "validVersions": "3-13",
        "flexibleVersions": "9+",
        "fields": [
            {
                "name": "Responses",
                "type": "[]TopicProduceResponse",
                "versions": "0+",
                "fields": [
                    *TOPIC,
                    {
                        "name": "PartitionResponses",
                        "type": "[]PartitionProduceResponse",
                        "versions": "0+",
                        "fields": [PARTITION, ERROR, _number("BaseOffset", "int64")],
                    },
                ],
            },
            THROTTLE,
            {
                "name": "NodeEndpoints",
                "type": "[]NodeEndpoint",
                "versions": "10+",
                "taggedVersions": "10+",
                "tag": 0,
                "fields": [_number("NodeId", "int32"), _string("Host"), _number("Port", "int32")],
            },
        ],
    },
]


def make_jar(folder: Path) -> Path:
    """Write these schemas as a jar of `kafka-clients` has them, comments included."""
    jar = folder / "kafka-clients-0.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for body in MESSAGES:
            archive.writestr(
                f"common/message/{body['name']}.json", "// A comment.\n" + json.dumps(body, indent=1)
            )
    return jar


@cache
def small_schemas() -> Schemas:
    """Return the schemas of the messages of transactions."""
    with TemporaryDirectory() as folder:
        return Schemas.of_jar(make_jar(Path(folder)))
