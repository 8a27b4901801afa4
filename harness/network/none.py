"""The network of a cluster whose links cannot be struck."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from harness.common.errors import FaultFailed
from harness.network import ActiveEffect, LinkEffect, LinkMeter
from harness.network.traffic import SocketMeter


class NoNetwork:
    """A `Network` without links."""

    alive = True
    links: Sequence[str] = ()

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Nobody can say."""
        return {}

    def meter(self, links: Iterable[str]) -> LinkMeter:
        """Return one that cannot count."""
        return SocketMeter(lambda: None, {})

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Raises `FaultFailed`: faults that need links are not drawn here."""
        raise FaultFailed("the links of this cluster cannot be struck")

    def heal(self) -> None:
        """Nothing is struck."""
