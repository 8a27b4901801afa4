"""The toxics by which toxiproxy makes each effect: the table of what its links can do.

It loads no client of toxiproxy: what a kind of cluster can do is known without one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.common.errors import UsageError
from harness.network import Cut, DropResponses, LinkEffect


@dataclass(frozen=True)
class Toxic:
    """A toxic on one stream of a proxy. Two that are equal are one toxic, and two that differ can be on one stream."""

    kind: str  # as toxiproxy calls it: timeout, latency, bandwidth, ...
    stream: str  # upstream: the way of requests; downstream: the way of responses
    attributes: tuple[tuple[str, int], ...] = field(default=())

    @property
    def name(self) -> str:
        """Its name on its proxy: it says all that the toxic is."""
        return "-".join([self.kind, self.stream, *(f"{key}-{value}" for key, value in self.attributes)])


def _silent(stream: str) -> Toxic:
    """With a time-out of 0 a stream stays open, and its bytes are thrown away."""
    return Toxic("timeout", stream, (("timeout", 0),))


TOXICS: Mapping[type[LinkEffect], Callable[[Any], tuple[Toxic, ...]]] = {
    Cut: lambda effect: (_silent("upstream"), _silent("downstream")),
    DropResponses: lambda effect: (_silent("downstream"),),
}
"""For each effect: the toxics that make it. `harness.network.proxied.LinkCut` proves effects that silence a stream. An
effect that lets bytes pass needs a proof of its own there.
"""

EFFECTS = frozenset(TOXICS)
"""The effects that links through toxiproxy can have."""


def toxics_of(effect: LinkEffect) -> tuple[Toxic, ...]:
    """Return the toxics that make an effect. Raises `UsageError` if there are none."""
    made = TOXICS.get(type(effect))
    if made is None:
        raise UsageError(f"toxiproxy cannot {effect.action}: impose another effect")
    return made(effect)
