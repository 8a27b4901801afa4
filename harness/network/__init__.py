"""The links of a cluster, the effects that a fault can impose on them, and the toxics of each effect.

A link is directed: `peer:1->2:int` is the path by which broker 1 dials broker 2. `links_between` and `links_around`
list the links between two brokers or around one broker. A network imposes an effect only on links that a caller names.

Over `peer:1->2:int`, broker 1 dials broker 2 as a peer (replication, markers, forwarded requests). Over
`peer:1->2:ctl`, broker 1 dials broker 2 as a controller. Over `client:w0->2`, the client endpoint w0 dials broker 2.
Each link has its own proxy, so a cut of one link does not affect the others.

This module does not import a client of toxiproxy, because the abilities of cluster kinds must be known without one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, ClassVar, NamedTuple, Protocol

from harness.common.errors import UsageError
from harness.protocol.observed_clients import ObservedClients
from harness.protocol.rules import ProtocolRule

KINDS = ("int", "ctl")
DISABLED = "disabled"
"""The kind of the only `Toxic` that is none: the proxy is switched off. Then nothing listens on its port."""
SLICE_DELAY_US = 500
"""Between two slices. Without it, the receiver would read several slices at once."""
_UNTIL_THE_HEAL_MS = 86_400_000


def peer_link(source: int, target: int, kind: str) -> str:
    """Return the name of the link from one broker to another. `kind` is `int` or `ctl`."""
    return f"peer:{source}->{target}:{kind}"


def client_link(endpoint: str, broker: int) -> str:
    """Return the name of the link from a client endpoint to a broker."""
    return f"client:{endpoint}->{broker}"


def client_links_by_broker(endpoint: str, links: Iterable[str]) -> dict[int, str]:
    """Return the links that begin at a client endpoint, by broker."""
    stem = f"client:{endpoint}->"
    return {int(link.removeprefix(stem)): link for link in links if link.startswith(stem)}


def links_between(first: int, second: int) -> list[str]:
    """Return all links between two brokers, in both directions."""
    return [peer_link(a, b, kind) for a, b in permutations((first, second)) for kind in KINDS]


def links_around(broker: int, brokers: Sequence[int]) -> list[str]:
    """Return all links between a broker and its peers, in both directions."""
    return [link for peer in brokers if peer != broker for link in links_between(broker, peer)]


def proxy_name(link: str) -> str:
    """Return the name of a link's proxy in toxiproxy. It has no characters that a URL would escape."""
    return link.replace("->", "-to-").replace(":", ".")


@dataclass(frozen=True)
class LinkEffect:
    """A network effect: a frozen dataclass whose fields are the parameters of the effect.

    A new effect is a subclass, with a line in the table of each network that can make it
    (`harness.network.TOXICS` for toxiproxy). A nemesis that imposes it names the subclass in `Nemesis.needs`.
    If the cluster cannot make the effect, the nemesis is refused before the run starts.
    """

    action: ClassVar[str] = ""  # completes "a cluster on which one can ..."


@dataclass(frozen=True)
class Cut(LinkEffect):
    """No bytes pass in either direction. Bytes in flight are lost, and are not delivered later."""

    action: ClassVar[str] = "cut links"


@dataclass(frozen=True)
class DropResponses(LinkEffect):
    """Requests arrive and take effect, but their responses are lost."""

    action: ClassVar[str] = "drop responses"


@dataclass(frozen=True)
class DropOneWay(LinkEffect):
    """The bytes of one direction are lost: the requests on most links, and the responses on some.

    Between two brokers, the bytes from the first to the second are requests where the first dials, and responses where
    the second dials.
    """

    responses_of: frozenset[str] = frozenset()  # the links on which the responses are lost
    action: ClassVar[str] = "drop bytes of one direction"


@dataclass(frozen=True)
class ResetConnections(LinkEffect):
    """Each connection ends as soon as bytes are sent on it. Those that are opened meanwhile are reset (RST)."""

    action: ClassVar[str] = "reset connections"


@dataclass(frozen=True)
class RefuseConnections(LinkEffect):
    """Connections end, and new ones are refused, as if no process listened on the port."""

    action: ClassVar[str] = "refuse connections"


@dataclass(frozen=True)
class HalfOpen(LinkEffect):
    """The end that is dialed closes the existing connections, and the end that dials does not notice it.

    What the end that dials then sends on them is lost. New connections work. Source of the term: RFC 9293, section
    3.5.1.
    """

    action: ClassVar[str] = "leave connections half open"


@dataclass(frozen=True)
class Latency(LinkEffect):
    """Bytes of each direction arrive later by `latency_ms`, more or less by at most `jitter_ms`, and in order."""

    latency_ms: int = 0
    jitter_ms: int = 0
    action: ClassVar[str] = "delay bytes"


@dataclass(frozen=True)
class Bandwidth(LinkEffect):
    """Each direction of a connection carries at most `kb_per_s` kilobytes (of 1000 bytes) a second."""

    kb_per_s: int = 0
    action: ClassVar[str] = "limit the bandwidth"


@dataclass(frozen=True)
class Slices(LinkEffect):
    """Bytes arrive in pieces of at most about `slice_bytes`, with a short time between them."""

    slice_bytes: int = 0
    action: ClassVar[str] = "slice packets"


@dataclass(frozen=True)
class ApplyRule(LinkEffect):
    """The protocol proxy on the links applies a rule to Kafka's messages. The heal delivers what the rule keeps."""

    rule: ProtocolRule | None = None
    action: ClassVar[str] = "change Kafka's messages"


class LinkTraffic(NamedTuple):
    """The numbers of bytes that were sent over a link."""

    requests: int  # bytes sent by the end that dials
    responses: int  # bytes sent by the end that is dialed


class LinkMeter(Protocol):
    """Counts the bytes on some links from the moment of its creation."""

    def traffic(self) -> Mapping[str, LinkTraffic] | None:
        """Return the traffic on each link since the creation. None if this platform or cluster cannot count it."""
        ...


class ActiveEffect(Protocol):
    """An effect that is, or was, imposed on some links."""

    @property
    def links(self) -> Sequence[str]:
        """The names of the links."""
        ...

    def evidence(self) -> str:
        """Return the proof that the effect acts, or "" if there is none. Call it while the effect is imposed.

        An effect acts if a request of the harness shows it on each link, and if another process has met it on one:
        since it began, this process has sent bytes into the link, or its connection has ended. If this cannot be
        counted, a connection on the link is enough, and the text says so.
        """
        ...

    @property
    def missing_proof(self) -> str:
        """Why the last call of `evidence` returned no proof. Empty if it returned one."""
        ...


class Network(Protocol):
    """The links of a cluster. An effect can be imposed on each of them alone."""

    @property
    def problem(self) -> str:
        """Which process that carries the links has ended, and the last line of its log. Empty while all run."""
        ...

    @property
    def links(self) -> Sequence[str]:
        """The names of all links."""
        ...

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return the number of open connections on each link, including the harness's own."""
        ...

    def meter(self, links: Iterable[str]) -> LinkMeter:
        """Begin to count the bytes that are sent over these links, whether or not an effect is imposed."""
        ...

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return what all requests on these links until now say about their clients.

        None if no protocol proxy is on these links. Raises `FaultFailed` if the proxy does not answer.
        """
        ...

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Impose an effect on links for the length of a `with`.

        Raises `UsageError` for a link or an effect that this network does not have. Raises `FaultFailed` if the effect
        cannot be imposed or removed.
        """
        ...

    def undecoded(self) -> Sequence[str]:
        """Return which of Kafka's messages passed unchanged because the protocol proxy cannot decode them, in words.

        Raises `FaultFailed`.
        """
        ...

    def heal(self) -> None:
        """Remove every effect. It does nothing if there is none. Raises `FaultFailed`."""
        ...


@dataclass(frozen=True)
class Toxic:
    """A toxic on one stream of a proxy. Different toxics can be on the same stream together."""

    kind: str  # the type in toxiproxy: timeout, latency, bandwidth, ...; or `DISABLED`
    stream: str = ""  # upstream: requests; downstream: responses
    attributes: tuple[tuple[str, int], ...] = field(default=())
    momentary: bool = (
        False  # it is removed right after it was added, so it acts only on the connections of that moment
    )

    @property
    def name(self) -> str:
        """Its name on its proxy. Different toxics have different names."""
        return "-".join([self.kind, self.stream, *(f"{key}-{value}" for key, value in self.attributes)])


def _on_both_streams(kind: str, **attributes: int) -> tuple[Toxic, ...]:
    return tuple(Toxic(kind, stream, tuple(attributes.items())) for stream in ("upstream", "downstream"))


def _drop_bytes(stream: str) -> Toxic:
    """Return the toxic that drops the bytes of a stream. With a time-out of 0 the stream stays open."""
    return Toxic("timeout", stream, (("timeout", 0),))


def _half_open() -> tuple[Toxic, ...]:
    """Return the toxics that close the upstream connections of this moment, and hide it from the dialing ends.

    When toxiproxy removes a time-out, it closes the streams on which it was. A slow close delays the end of the other
    stream, but no bytes.
    """
    return (
        Toxic("slow_close", "downstream", (("delay", _UNTIL_THE_HEAL_MS),)),
        Toxic("timeout", "upstream", (("timeout", 1),), momentary=True),
    )


TOXICS: Mapping[type[LinkEffect], Callable[[Any, str], tuple[Toxic, ...]]] = {
    Cut: lambda effect, link: _on_both_streams("timeout", timeout=0),
    DropResponses: lambda effect, link: (_drop_bytes("downstream"),),
    DropOneWay: lambda effect, link: (
        _drop_bytes("downstream" if link in effect.responses_of else "upstream"),
    ),
    ResetConnections: lambda effect, link: _on_both_streams("reset_peer", timeout=0),
    RefuseConnections: lambda effect, link: (Toxic(DISABLED),),
    HalfOpen: lambda effect, link: _half_open(),
    Latency: lambda effect, link: _on_both_streams(
        "latency", latency=effect.latency_ms, jitter=effect.jitter_ms
    ),
    Bandwidth: lambda effect, link: _on_both_streams("bandwidth", rate=effect.kb_per_s),
    Slices: lambda effect, link: _on_both_streams(
        "slicer", average_size=effect.slice_bytes, size_variation=0, delay=SLICE_DELAY_US
    ),
}
"""For each effect: the toxics that make it on a link. `harness.network.proofs.PROOFS` proves each effect."""

EFFECTS: frozenset[type[LinkEffect]] = frozenset({*TOXICS, ApplyRule})
"""The effects that links through toxiproxy and the protocol proxy can have."""
CONTAINER_EFFECTS: frozenset[type[LinkEffect]] = frozenset({Cut, DropResponses, ApplyRule})
"""The effects that can be proved if toxiproxy runs in a container, where the bytes of its sockets cannot be counted."""


def toxics_of(effect: LinkEffect, link: str) -> tuple[Toxic, ...]:
    """Return the toxics that make an effect on a link. Raises `UsageError` if there are none."""
    make_toxics = TOXICS.get(type(effect))
    if make_toxics is None:
        raise UsageError(f"toxiproxy cannot {effect.action}: impose another effect")
    return make_toxics(effect, link)
