"""A network without a network, for unit tests and for whoever writes a fault."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.errors import FaultFailed
from harness.network import Carried, LinkEffect


@dataclass
class FakeImposed:
    """An effect on some links; `proof` is what it says of itself."""

    links: Sequence[str]
    proof: str

    def evidence(self) -> str:
        """Empty, where the effect is to be one that does nothing."""
        return self.proof

    @property
    def lacks(self) -> str:
        """As a real network says it."""
        return "" if self.proof else f"nothing was sent into {', '.join(self.links)} while it was cut"


@dataclass
class FakeMeter:
    """A `Meter` of a `FakeNetwork`: some bytes on each link that is in use, at every look."""

    network: "FakeNetwork"
    links: Sequence[str]

    def carried(self) -> Mapping[str, Carried] | None:
        """None, where the network is one whose bytes cannot be counted."""
        if not self.network.measured:
            return None
        used = self.network.connections(self.links)
        return {link: Carried(100, 50) if used[link] else Carried(0, 0) for link in self.links}


@dataclass
class FakeNetwork:
    """A `Network` that notes what is imposed. Set `proof` to "" for an effect that cannot be shown to act."""

    links: Sequence[str] = ()
    proof: str = "nothing passes"
    heal_fails: bool = False
    alive: bool = True
    idle: Collection[str] = ()  # links on which no connection stands
    measured: bool = True  # the bytes on links can be counted
    on: list[str] = field(default_factory=list)  # the links that are struck now
    imposed: list[tuple[str, LinkEffect]] = field(default_factory=list)  # all that ever were

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """One on each link, but for those that are idle."""
        return {link: int(link not in self.idle) for link in links}

    def meter(self, links: Iterable[str]) -> FakeMeter:
        """Count from now."""
        return FakeMeter(self, tuple(links))

    @contextmanager
    def impose(self, links: Sequence[str], effect: LinkEffect) -> Iterator[FakeImposed]:
        """Note it; raises `FaultFailed` at the end if healing is to fail."""
        self.on += links
        self.imposed += [(link, effect) for link in links]
        yield FakeImposed(links, self.proof)
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.on = [link for link in self.on if link not in links]

    def heal(self) -> None:
        """Nothing is struck any more."""
        if self.heal_fails:
            raise FaultFailed("the links could not be healed")
        self.on = []
