"""The network of a cluster whose links cannot be cut."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from harness.common.errors import FaultFailed
from harness.network import ActiveEffect, LinkEffect, LinkMeter
from harness.network.traffic import SocketMeter
from harness.protocol.observed_clients import ObservedClients


class NoNetwork:
    """A `Network` without links."""

    problem = ""
    links: Sequence[str] = ()

    def connections(self, links: Iterable[str]) -> Mapping[str, int]:
        """Return nothing, because there are no links."""
        return {}

    def meter(self, links: Iterable[str]) -> LinkMeter:
        """Return a meter that cannot count."""
        return SocketMeter(lambda: None, {})

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return None, because there are no links."""
        return None

    def impose(self, links: Sequence[str], effect: LinkEffect) -> AbstractContextManager[ActiveEffect]:
        """Raise `FaultFailed`. Schedules for such a cluster have no faults that need links."""
        raise FaultFailed("this cluster has no links that can be cut")

    def undecoded(self) -> Sequence[str]:
        """Return nothing, because there are no links."""
        return ()

    def heal(self) -> None:
        """Do nothing, because there are no effects."""
