"""The requests that brokers answered, as their own request log has them: which versions a client really speaks.

A line is a time, `Completed request:` and JSON; Kafka writes it at the level DEBUG of `kafka.request.logger`
(KIP-673). It names the listener, and each client endpoint of a cluster of ours has one of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

LOGGER = "kafka.request.logger"
_MARK = b"Completed request:"


@dataclass(frozen=True)
class ClientVersions:
    """What came over some listeners."""

    versions: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by request (`EndTxn`), each once
    software: Sequence[str] = ()  # as the clients name themselves: `apache-kafka-java 4.3.1`


@dataclass(frozen=True)
class ObservedClientIds:
    """By which names a client has spoken over its listener."""

    members: frozenset[tuple[str, str]] = frozenset()  # (group, id): in heartbeats, or commits of offsets
    transactional_ids: Mapping[str, str] = field(default_factory=dict)
    """By id, when it was last spoken, as the log writes it: later ones are greater. Of several brokers' logs, too."""


def parse_client_versions(lines: Iterable[bytes], listeners: Collection[str]) -> ClientVersions:
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
    return ClientVersions(
        {name: sorted(found) for name, found in sorted(versions.items())},
        tuple(sorted(software - {"unknown unknown"})),  # who has not yet asked for ApiVersions is not known
    )


def parse_client_ids(lines: Iterable[bytes], listener: str) -> ObservedClientIds:
    """What came over a listener. A line that is cut, or of another kind, says nothing."""
    members: set[tuple[str, str]] = set()
    ids: dict[str, str] = {}
    for line in lines:
        begin, marked, text = line.partition(_MARK)
        if not marked or (b"memberId" not in text and b"ransactionalId" not in text):
            continue
        try:
            told: dict[str, Any] = orjson.loads(text)
            asked: dict[str, Any] = told["request"]
            if told["listener"] != listener:
                continue
            members.add((str(asked.get("groupId")), str(asked.get("memberId") or "")))
            own = asked.get("transactionalId") or asked.get("v3AndBelowTransactionalId")
            if own:
                ids[own] = max(begin.decode(errors="replace").strip(), ids.get(own, ""))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            continue
    return ObservedClientIds(frozenset(one for one in members if one[1]), ids)  # who joins has no id yet


def _name(key: str) -> str:
    """`EndTxn` of `END_TXN`."""
    return "".join(word.capitalize() for word in key.split("_"))
