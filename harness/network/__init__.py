"""The links of a cluster, and what may be imposed on them.

A link is directed: `peer:1->2:int` is how broker 1 dials broker 2. Which links a cut between two ends means, or one
around a broker, is worked out in `harness.network.links`; a network only imposes an effect on the links it is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol


@dataclass(frozen=True)
class LinkEffect:
    """What happens to the bytes on a link: a frozen dataclass, whose fields are its parameters.

    A new effect derives from this class, and has a line in the table of each network that can make it:
    `harness.network.toxics.TOXICS` for toxiproxy. A fault that imposes it names its class in `Nemesis.needs`. The fault
    is then refused before the run starts if the cluster cannot make the effect.
    """

    action: ClassVar[str] = ""  # completes "needs a cluster on which one can ..."


@dataclass(frozen=True)
class Cut(LinkEffect):
    """Nothing passes in either direction. Bytes in flight are lost, never delivered late."""

    action: ClassVar[str] = "cut links"


@dataclass(frozen=True)
class DropResponses(LinkEffect):
    """Requests arrive and take effect. No response comes back."""

    action: ClassVar[str] = "drop responses"


class LinkTraffic(NamedTuple):
    """The bytes that were sent over a link."""

    requests: int  # by the end that dials
    answers: int  # by the end that is dialed


class LinkMeter(Protocol):
    """Counts the bytes on some links from the moment that it is made."""

    def traffic(self) -> Mapping[str, LinkTraffic] | None:
        """Return the bytes of each link since then. None: they cannot be counted on this platform or cluster."""
        ...


class ActiveEffect(Protocol):
    """An effect that is on some links, or was."""

    @property
    def links(self) -> Sequence[str]:
        """Their names."""
        ...

    def evidence(self) -> str:
        """How it is known that the effect acts; empty if there is no proof. Ask while it is on.

        An effect acts if somebody other than the harness has sent bytes into a link since it is on. Where bytes cannot
        be counted, a connection on the link must do, and the evidence says so.
        """
        ...

    @property
    def missing_proof(self) -> str:
        """Why the last `evidence` was empty: what was last seen of the links. Empty if it was not."""
        ...


class Network(Protocol):
    """The links of a cluster, each of which can be struck alone."""

    @property
    def alive(self) -> bool:
        """Whether what carries the links still runs."""
        ...

    @property
    def links(self) -> Sequence[str]:
        """The names of all links."""
        ...

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """How many connections stand on each link, from whoever dials it."""
        ...

    def meter(self, links: Iterable[str]) -> LinkMeter:
        """Begin to count the bytes that are sent over these links, with any effect on them or none."""
        ...

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Put an effect on links for the length of a `with`.

        Raises `UsageError` for a link or an effect that this network does not have, `FaultFailed` if it fails.
        """
        ...

    def heal(self) -> None:
        """Remove every effect; idempotent. Raises `FaultFailed`."""
        ...
