"""The clients on a link, as their requests describe them: client ids, group members, transactional ids, versions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.processes.messages import ProcessMessage
from harness.protocol.schemas import Message
from harness.record.protocol_journal import RequestRecord


class ObservedClients(ProcessMessage, frozen=True):
    """The clients on some links, as all their requests until now describe them."""

    client_ids: Sequence[str] = ()
    software: Sequence[str] = ()  # name and version that clients report (KIP-511): `apache-kafka-java 4.3.1`
    versions: Mapping[str, Sequence[int]] = {}  # by API: the versions of its requests
    transactional_ids: Mapping[str, int] = {}
    """By id: the time of its last request, in nanoseconds on the monotonic clock of the proxy."""
    members: Mapping[str, Sequence[str]] = {}  # by group: the ids of its members
    without_generation: bool | None = None
    """Whether a TxnOffsetCommit had no generation. Without one, a group accepts offsets of a client that is no member
    (KIP-447). None: no TxnOffsetCommit was decoded.
    """


@dataclass
class LinkClients:
    """Collects what the requests on one link say."""

    client_ids: set[str] = field(default_factory=set)
    software: set[str] = field(default_factory=set)
    versions: dict[str, set[int]] = field(default_factory=dict)
    transactional_ids: dict[str, int] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    without_generation: bool | None = None

    def note(self, request: RequestRecord, body: Message) -> None:
        """Take notice of a request. The body is empty if the request is not decoded."""
        self.versions.setdefault(request.api, set()).add(request.version)
        if request.client_id is not None:
            self.client_ids.add(request.client_id)
        if request.api != "FindCoordinator":  # it may ask for the id of another client
            self.transactional_ids.update(dict.fromkeys(request.transactional_ids, request.seen_ns))
        if name := body.get("ClientSoftwareName"):
            self.software.add(f"{name} {body['ClientSoftwareVersion']}")
        if member := body.get("MemberId"):  # a member that joins has no id yet
            self.members.setdefault(body["GroupId"], set()).add(member)
        if request.api == "TxnOffsetCommit" and body:
            generations = [value for key, value in body.items() if key.startswith("GenerationId")]
            own = all(generation < 0 for generation in generations)
            self.without_generation = own or bool(self.without_generation)


def describe(links: Iterable[LinkClients]) -> ObservedClients:
    """Return the clients on all of these links."""
    client_ids: set[str] = set()
    software: set[str] = set()
    versions: dict[str, set[int]] = {}
    transactional_ids: dict[str, int] = {}
    members: dict[str, set[str]] = {}
    generations_missing: list[bool] = []
    for link in links:
        if link.without_generation is not None:
            generations_missing.append(link.without_generation)
        client_ids |= link.client_ids
        software |= link.software
        for api, used in link.versions.items():
            versions.setdefault(api, set()).update(used)
        for own_id, at_ns in link.transactional_ids.items():
            transactional_ids[own_id] = max(at_ns, transactional_ids.get(own_id, 0))
        for group, ids in link.members.items():
            members.setdefault(group, set()).update(ids)
    return ObservedClients(
        tuple(sorted(client_ids)),
        tuple(sorted(software)),
        {api: tuple(sorted(used)) for api, used in sorted(versions.items())},
        transactional_ids,
        {group: tuple(sorted(ids)) for group, ids in sorted(members.items())},
        any(generations_missing) if generations_missing else None,
    )
