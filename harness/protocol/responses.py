"""Change responses: set the error codes that a broker would give, and replace the brokers' addresses.

An address is a struct with a broker's id, a host and a port, wherever the schema has one: in Metadata, FindCoordinator,
DescribeCluster, and in the `NodeEndpoints` of Produce and Fetch, which name a new leader (KIP-951). In ApiVersions,
versions that the schemas do not have are removed, because their responses might hold addresses at unknown positions.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.model.kafka_protocol import error_codes
from harness.protocol.rules import Frame
from harness.protocol.schemas import Api, Field, Message, Schemas, UnknownMessage

NONE = 0
_PARTITION_FIELDS = ("PartitionIndex", "Index", "Partition")
HOST = "127.0.0.1"
UNREACHABLE = (HOST, 1)
"""The address for a broker that has no proxy. Nothing listens there."""
ADDRESS_APIS = frozenset({0, 1, 3, 10, 18, 60, 78, 79})
"""The APIs whose responses have addresses of brokers, and ApiVersions."""
HIDDEN_APIS = frozenset({4, 5, 6, 7, 52, 53, 54, 59, 82})
"""APIs between brokers and controllers. The proxy does not offer them: no client needs them."""
_MOST_VERSIONS = {55: 1}
"""By API: the newest version that is offered. From version 2 on, DescribeQuorum has the controllers' addresses."""


@cache
def _names() -> Mapping[int, str]:
    return {code: name for name, code in error_codes().items()}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code. An unknown code is returned as a number."""
    return _names().get(code, str(code))


def errors_in(api: Api, response: Message, version: int) -> tuple[str, ...]:
    """Return the names of the errors in a response, each once. Empty if there is none."""
    codes = dict.fromkeys(_codes(api.response.fields, response, version))
    return tuple(error_name(code) for code in codes if code != NONE)


def set_errors(api: Api, response: Message, version: int, code: int) -> Message:
    """Return the response with this code in each of its error fields."""
    return _with_code(api.response.fields, response, version, code)


def error_response(api: Api, request: Message, version: int, code: int) -> Message:
    """Return the response with which a broker refuses a request: each topic, partition, id and key has this error."""
    return _answer(
        api.response.fields, _RequestNames(api.request.fields, request, version), version, code, None
    )


def _is_error(field: Field) -> bool:
    return field.kind == "int16" and field.name.endswith("ErrorCode")


def _codes(fields: tuple[Field, ...], message: Mapping[str, Any], version: int) -> Iterator[int]:
    for field in fields:
        value = message.get(field.name)
        if version not in field.versions or value is None:
            continue
        if _is_error(field):
            yield value
        elif field.is_struct:
            for each in value if field.is_array else (value,):
                yield from _codes(field.fields, each, version)


def _with_code(fields: tuple[Field, ...], message: Message, version: int, code: int) -> Message:
    changed = dict(message)
    for field in fields:
        value = message.get(field.name)
        if version not in field.versions or value is None:
            continue
        if _is_error(field):
            changed[field.name] = code
        elif field.is_struct and field.is_array:
            changed[field.name] = [_with_code(field.fields, each, version, code) for each in value]
        elif field.is_struct:
            changed[field.name] = _with_code(field.fields, value, version, code)
    return changed


class _RequestNames:
    """The names that a request has, by which its response is ordered.

    Fields that this version of the request has not are left out: the proxy adds names to topics that have only ids.
    """

    def __init__(self, fields: tuple[Field, ...], request: Message, version: int) -> None:
        self._version = version
        self.topics: dict[Any, list[int]] = {}  # by name or id of the topic: its partitions
        self.transactional_ids: list[str] = []
        self.groups: list[str] = []
        self.producer_ids: list[int] = []
        self.keys: list[str] = [*(request.get("CoordinatorKeys") or ())]
        self._collect(fields, request)

    def _collect(self, all_fields: tuple[Field, ...], message: Mapping[str, Any]) -> None:
        fields = [field for field in all_fields if self._version in field.versions]
        topic = next(
            (
                message[field.name]
                for field in fields
                if _is_topic(field) and not field.is_array and field.name in message
            ),
            None,
        )
        for field in fields:
            value = message.get(field.name)
            if value is None:
                continue
            if field.entity == "transactionalId" and not field.is_array:
                self.transactional_ids.append(value)
            elif field.entity == "producerId" and not field.is_array:
                self.producer_ids.append(value)
            elif field.entity == "groupId":
                self.groups += value if field.is_array else [value]
            elif _is_topic(field) and field.is_array:
                self.topics |= {name: [] for name in value}
            if field.is_array and topic is not None:
                self.topics.setdefault(topic, []).extend(_partitions(field, value))
            if field.is_struct:
                for each in value if field.is_array else (value,):
                    self._collect(field.fields, each)


def _is_topic(field: Field) -> bool:
    return field.entity == "topicName" or field.name == "TopicId"


def _partitions(field: Field, values: list[Any]) -> list[int]:
    if field.kind == "int32":
        return list(values)
    index = next((each.name for each in field.fields if each.name in _PARTITION_FIELDS), None)
    return [each[index] for each in values] if index is not None else []


def _answer(
    fields: tuple[Field, ...],
    request_names: _RequestNames,
    version: int,
    code: int,
    partitions: list[int] | None,
) -> Message:
    message: Message = {}
    for field in fields:
        if version not in field.versions or version in field.tagged:
            continue
        if _is_error(field):
            message[field.name] = code
        elif not field.is_struct:
            message[field.name] = None if version in field.nullable else field.default
        elif field.is_array:
            message[field.name] = _elements(field, request_names, version, code, partitions)
        elif version in field.nullable:
            message[field.name] = None
        else:
            message[field.name] = _answer(field.fields, request_names, version, code, partitions)
    return message


def _elements(
    field: Field, request_names: _RequestNames, version: int, code: int, partitions: list[int] | None
) -> list[Message]:
    """Return one element for each name of the request that the elements are about."""
    names = [each for each in field.fields if version in each.versions]
    for name in names:
        values: list[Any] | None = None
        if _is_topic(name):
            return [
                _answer(field.fields, request_names, version, code, numbers) | {name.name: topic}
                for topic, numbers in request_names.topics.items()
            ]
        if name.name in _PARTITION_FIELDS:
            values = partitions if partitions is not None else []
        elif name.entity == "transactionalId":
            values = request_names.transactional_ids
        elif name.entity == "groupId":
            values = request_names.groups
        elif name.entity == "producerId":
            values = request_names.producer_ids
        elif name.name == "Key":
            values = request_names.keys
        if values is not None:
            return [
                _answer(field.fields, request_names, version, code, partitions) | {name.name: each}
                for each in values
            ]
    return []


@dataclass
class AddressMap:
    """The address that a client gets for each broker."""

    by_broker: Mapping[int, tuple[str, int]]
    unknown_brokers: set[int] = dataclasses.field(
        default_factory=set
    )  # brokers in responses that have no proxy

    def of(self, broker: int) -> tuple[str, int]:
        """Return the address at which a client must dial a broker."""
        if broker not in self.by_broker:
            self.unknown_brokers.add(broker)
        return self.by_broker.get(broker, UNREACHABLE)

    def rewrite(self, frame: Frame, schemas: Schemas) -> bool:
        """Replace the addresses in a response. Return whether it has changed."""
        if frame.api == "ApiVersions":
            frame.body["ApiKeys"] = [
                each for key in frame.body["ApiKeys"] or () if (each := _offered(key, schemas))
            ]
            return True
        return self._replace(schemas.api(frame.api).response.fields, frame.body)

    def _replace(self, fields: tuple[Field, ...], body: Message) -> bool:
        changed = False
        if "Host" in body and "Port" in body:
            broker: int = body["NodeId"] if "NodeId" in body else body.get("BrokerId", -1)
            if broker >= 0:  # -1: there is no broker
                body["Host"], body["Port"] = self.of(broker)
                changed = True
        for each in fields:
            value: Any = body.get(each.name)
            if each.is_struct and value:
                for element in value if each.is_array else (value,):
                    changed |= self._replace(each.fields, element)
        return changed


def _offered(key: Message, schemas: Schemas) -> Message | None:
    """Return an API of an ApiVersions response with those of its versions that clients may use. None: no version."""
    try:
        known = schemas.api(key["ApiKey"]).request.versions.last
    except UnknownMessage:
        return None
    newest = min(key["MaxVersion"], known, _MOST_VERSIONS.get(key["ApiKey"], known))
    if key["ApiKey"] in HIDDEN_APIS or newest < key["MinVersion"]:
        return None
    return {**key, "MaxVersion": newest}
