"""Parse the brokers' request logs, to know which request versions and ids a client really uses.

Kafka writes a line for each request if `kafka.request.logger` has the level DEBUG (KIP-673). The line has a time,
`Completed request:` and JSON, which names the listener. In clusters that a run starts, each client endpoint has its own
listener.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

LOGGER = "kafka.request.logger"
_MARK = b"Completed request:"


@dataclass(frozen=True)
class ClientVersions:
    """The request versions and the software of the clients on some listeners."""

    versions: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by request name (`EndTxn`)
    software: Sequence[str] = ()  # name and version that clients report: `apache-kafka-java 4.3.1`


@dataclass(frozen=True)
class ObservedClientIds:
    """The ids that a client used on its listener."""

    members: frozenset[tuple[str, str]] = frozenset()
    """(group, member id), from heartbeats and offset commits."""
    transactional_ids: Mapping[str, str] = field(default_factory=dict)
    """For each id: the time of its last request, as the log writes it. Such times can be compared as text."""


def parse_client_versions(lines: Iterable[bytes], listeners: Collection[str]) -> ClientVersions:
    """Collect the request versions and the software on these listeners. Incomplete and other lines are skipped."""
    versions: dict[str, set[int]] = {}
    software: set[str] = set()
    for line in lines:
        _, mark, text = line.partition(_MARK)
        try:
            entry: dict[str, Any] = orjson.loads(text) if mark else {}
            if entry.get("listener") not in listeners:
                continue
            header, client = entry["requestHeader"], entry["clientInformation"]
            versions.setdefault(_name(header["requestApiKeyName"]), set()).add(
                int(header["requestApiVersion"])
            )
            software.add(f"{client['softwareName']} {client['softwareVersion']}")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
            continue
    software.discard("unknown unknown")  # brokers log this until the client's ApiVersions request
    return ClientVersions(
        {name: sorted(numbers) for name, numbers in sorted(versions.items())}, tuple(sorted(software))
    )


def parse_client_ids(lines: Iterable[bytes], listener: str) -> ObservedClientIds:
    """Collect the member ids and transactional ids on a listener. Incomplete and other lines are skipped."""
    members: set[tuple[str, str]] = set()
    ids: dict[str, str] = {}
    for line in lines:
        time_text, mark, text = line.partition(_MARK)
        if not mark or (b"memberId" not in text and b"ransactionalId" not in text):
            continue
        try:
            entry: dict[str, Any] = orjson.loads(text)
            request: dict[str, Any] = entry["request"]
            if entry["listener"] != listener:
                continue
            members.add((str(request.get("groupId")), str(request.get("memberId") or "")))
            transactional_id = request.get("transactionalId") or request.get("v3AndBelowTransactionalId")
            if transactional_id:
                ids[transactional_id] = max(
                    time_text.decode(errors="replace").strip(), ids.get(transactional_id, "")
                )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            continue
    # A member that joins has no id yet.
    return ObservedClientIds(frozenset((group, member) for group, member in members if member), ids)


def _name(key: str) -> str:
    """Convert `END_TXN` to `EndTxn`."""
    return "".join(word.capitalize() for word in key.split("_"))
