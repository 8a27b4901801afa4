"""`FakeNetwork`: a `Network` in memory, for tests of faults."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.common.errors import FaultFailed
from harness.network import LinkEffect, LinkTraffic


@dataclass
class FakeActiveEffect:
    """An effect on some links. `evidence` returns `proof`."""

    links: Sequence[str]
    proof: str

    def evidence(self) -> str:
        """Return the proof; empty if the test asks for an effect that cannot be shown to act."""
        return self.proof

    @property
    def missing_proof(self) -> str:
        """Say it as a real network does."""
        return "" if self.proof else f"nothing was sent into {', '.join(self.links)} while it was cut"


@dataclass
class FakeMeter:
    """Counts 100 bytes of requests and 50 of answers on each link that is in use."""

    network: "FakeNetwork"
    links: Sequence[str]

    def traffic(self) -> Mapping[str, LinkTraffic] | None:
        """Return the same bytes at each call; None if the network is not `measured`."""
        if not self.network.measured:
            return None
        used = self.network.connections(self.links)
        return {link: LinkTraffic(100, 50) if used[link] else LinkTraffic(0, 0) for link in self.links}


@dataclass
class FakeNetwork:
    """A `Network` that remembers what was imposed. Set `proof` to "" for an effect that cannot be shown to act."""

    links: Sequence[str] = ()
    proof: str = "nothing passes"
    heal_fails: bool = False
    alive: bool = True
    idle: Collection[str] = ()  # links without a connection
    measured: bool = True  # the bytes on links can be counted
    on: list[str] = field(default_factory=list)  # the links that have an effect on them now
    imposed: list[tuple[str, LinkEffect]] = field(default_factory=list)  # all that ever were

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return one connection for each link, and none for those that are idle."""
        return {link: int(link not in self.idle) for link in links}

    def meter(self, links: Iterable[str]) -> FakeMeter:
        """Return a meter of these links."""
        return FakeMeter(self, tuple(links))

    @contextmanager
    def impose(self, links: Sequence[str], effect: LinkEffect) -> Iterator[FakeActiveEffect]:
        """Remember it. Raises `FaultFailed` at the end if `heal_fails`."""
        self.on += links
        self.imposed += [(link, effect) for link in links]
        yield FakeActiveEffect(links, self.proof)
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.on = [link for link in self.on if link not in links]

    def heal(self) -> None:
        """Remove every effect. Raises `FaultFailed` if `heal_fails`."""
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.on = []
