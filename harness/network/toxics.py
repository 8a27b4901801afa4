"""The toxics by which toxiproxy makes each network effect.

This module does not import a client of toxiproxy, because the abilities of cluster kinds must be known without one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.common.errors import UsageError
from harness.network import (
    ApplyRule,
    Bandwidth,
    Cut,
    DropOneWay,
    DropResponses,
    HalfOpen,
    Latency,
    LinkEffect,
    RefuseConnections,
    ResetConnections,
    Slices,
)

DISABLED = "disabled"
"""The kind of the only `Toxic` that is none: the proxy is switched off. Then nothing listens on its port."""
SLICE_DELAY_US = 500
"""Between two slices. Without it, the receiver would read several slices at once."""
_UNTIL_THE_HEAL_MS = 86_400_000


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
