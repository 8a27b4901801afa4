"""The requests that brokers answered, as their own request log has them: which versions a client really speaks.

A line is `Completed request:` and JSON; Kafka writes it at the level DEBUG of `kafka.request.logger` (KIP-673). It
names the listener, and each client slot of a cluster of ours has one of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

LOGGER = "kafka.request.logger"
_MARK = b"Completed request:"


@dataclass(frozen=True)
class Spoken:
    """What came over some listeners."""

    versions: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by request (`EndTxn`), each once
    software: Sequence[str] = ()  # as the clients name themselves: `apache-kafka-java 4.3.1`


def spoken(lines: Iterable[bytes], listeners: Collection[str]) -> Spoken:
    """What came over these listeners; a line that is cut, or of another kind, says nothing."""
    versions: dict[str, set[int]] = {}
    software: set[str] = set()
    for line in lines:
        _, marked, text = line.partition(_MARK)
        try:
            told: dict[str, Any] = orjson.loads(text) if marked else {}
            if told.get("listener") not in listeners:
                continue
            header, client = told["requestHeader"], told["clientInformation"]
            versions.setdefault(_name(header["requestApiKeyName"]), set()).add(
                int(header["requestApiVersion"])
            )
            software.add(f"{client['softwareName']} {client['softwareVersion']}")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
            continue
    return Spoken(
        {name: sorted(found) for name, found in sorted(versions.items())},
        tuple(sorted(software - {"unknown unknown"})),  # who has not yet asked for ApiVersions is not known
    )


def members_heard(lines: Iterable[bytes], listener: str, group: str) -> frozenset[str]:
    """The ids by which members of a group have spoken over a listener: in heartbeats, or commits of offsets."""
    found: set[str] = set()
    for line in lines:
        _, marked, text = line.partition(_MARK)
        if not marked or b"memberId" not in text:
            continue
        try:
            told: dict[str, Any] = orjson.loads(text)
            asked = told["request"]
            if told["listener"] == listener and asked["groupId"] == group:
                found.add(str(asked["memberId"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue
    return frozenset(found - {""})  # who joins has none yet


def _name(key: str) -> str:
    """`EndTxn` of `END_TXN`."""
    return "".join(word.capitalize() for word in key.split("_"))
