"""Error codes in responses: read them, set them, and make the response that a broker would give with such an error."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from harness.model.kafka_protocol import error_codes
from harness.protocol.schemas import Api, Field, Message

NONE = 0
_PARTITION_FIELDS = ("PartitionIndex", "Index", "Partition")


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
