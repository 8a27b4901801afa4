"""`FakeNetwork`: a `Network` in memory, for tests of faults."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.common.errors import FaultFailed
from harness.network import LinkEffect, LinkTraffic
from harness.protocol.observed_clients import ObservedClients


@dataclass
class FakeActiveEffect:
    """An effect on some links."""

    links: Sequence[str]
    proof: str

    def evidence(self) -> str:
        """Return the proof. It is empty if the effect cannot be proved."""
        return self.proof

    @property
    def missing_proof(self) -> str:
        """Return the reason for a missing proof, in the words of a real network."""
        return "" if self.proof else f"nothing was sent into {', '.join(self.links)} while it was cut"


@dataclass
class FakeMeter:
    """A meter that counts 100 bytes of requests and 50 bytes of responses on each link that is in use."""

    network: "FakeNetwork"
    links: Sequence[str]

    def traffic(self) -> Mapping[str, LinkTraffic] | None:
        """Return the same bytes at each call. None if the network is not `measured`."""
        if not self.network.measured:
            return None
        used = self.network.connections(self.links)
        return {link: LinkTraffic(100, 50) if used[link] else LinkTraffic(0, 0) for link in self.links}


@dataclass
class FakeNetwork:
    """A `Network` that records its effects. If `proof` is "", effects cannot be proved."""

    links: Sequence[str] = ()
    proof: str = "nothing passes"
    heal_fails: bool = False
    problem: str = ""
    idle: Collection[str] = ()  # links without a connection
    not_decoded: Sequence[str] = ()  # messages that no rule has seen
    measured: bool = True  # the bytes on links can be counted
    decoded: bool = True  # a protocol proxy is on the links
    clients: dict[str, ObservedClients] = field(default_factory=dict)  # by client endpoint
    affected: list[str] = field(default_factory=list)  # the links that have an effect now
    imposed: list[tuple[str, LinkEffect]] = field(default_factory=list)  # every link and effect until now

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return one connection for each link, and none for each `idle` link."""
        return {link: int(link not in self.idle) for link in links}

    def meter(self, links: Iterable[str]) -> FakeMeter:
        """Return a meter of these links."""
        return FakeMeter(self, tuple(links))

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return the value in `clients` for the endpoint of the first link. None if the links are not `decoded`."""
        endpoint = next(iter(links), "").removeprefix("client:").partition("->")[0]
        return self.clients.get(endpoint, ObservedClients()) if self.decoded else None

    @contextmanager
    def impose(self, links: Sequence[str], effect: LinkEffect) -> Iterator[FakeActiveEffect]:
        """Record the effect. Raises `FaultFailed` at the end if `heal_fails`."""
        self.affected += links
        self.imposed += [(link, effect) for link in links]
        yield FakeActiveEffect(links, self.proof)
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.affected = [link for link in self.affected if link not in links]

    def undecoded(self) -> Sequence[str]:
        """Return `not_decoded`."""
        return self.not_decoded

    def heal(self) -> None:
        """Remove every effect. Raises `FaultFailed` if `heal_fails`."""
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.affected = []
