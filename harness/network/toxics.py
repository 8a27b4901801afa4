"""The toxics by which toxiproxy makes each network effect.

This module does not import a client of toxiproxy, because the abilities of cluster kinds must be known without one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.common.errors import UsageError
from harness.network import ApplyRule, Cut, DropResponses, LinkEffect


@dataclass(frozen=True)
class Toxic:
    """A toxic on one stream of a proxy. Different toxics can be on the same stream together."""

    kind: str  # the type in toxiproxy: timeout, latency, bandwidth, ...
    stream: str  # upstream: requests; downstream: responses
    attributes: tuple[tuple[str, int], ...] = field(default=())

    @property
    def name(self) -> str:
        """Its name on its proxy. Different toxics have different names."""
        return "-".join([self.kind, self.stream, *(f"{key}-{value}" for key, value in self.attributes)])


def _drop_bytes(stream: str) -> Toxic:
    """Return the toxic that drops the bytes of a stream. With a time-out of 0 the stream stays open."""
    return Toxic("timeout", stream, (("timeout", 0),))


TOXICS: Mapping[type[LinkEffect], Callable[[Any], tuple[Toxic, ...]]] = {
    Cut: lambda effect: (_drop_bytes("upstream"), _drop_bytes("downstream")),
    DropResponses: lambda effect: (_drop_bytes("downstream"),),
}
"""For each effect: the toxics that make it.

`harness.network.proxied.LinkCut` proves only effects that drop a stream. An effect that lets bytes pass needs another
proof.
"""

EFFECTS: frozenset[type[LinkEffect]] = frozenset({*TOXICS, ApplyRule})
"""The effects that links through toxiproxy and the protocol proxy can have."""


def toxics_of(effect: LinkEffect) -> tuple[Toxic, ...]:
    """Return the toxics that make an effect. Raises `UsageError` if there are none."""
    make_toxics = TOXICS.get(type(effect))
    if make_toxics is None:
        raise UsageError(f"toxiproxy cannot {effect.action}: impose another effect")
    return make_toxics(effect)
