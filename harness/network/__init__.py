"""The links of a cluster, and the network effects that a fault can impose on them.

A link is directed: `peer:1->2:int` is the path by which broker 1 dials broker 2. `harness.network.links` lists the
links between two brokers or around one broker. A network imposes an effect only on the links that a caller names.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from harness.protocol.observed_clients import ObservedClients
from harness.protocol.rules import ProtocolRule


@dataclass(frozen=True)
class LinkEffect:
    """A network effect: a frozen dataclass whose fields are the parameters of the effect.

    A new effect is a subclass, with a line in the table of each network that can make it
    (`harness.network.toxics.TOXICS` for toxiproxy). A nemesis that imposes it names the subclass in `Nemesis.needs`.
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
