"""one-way: lose the bytes of one direction between brokers, or between a client and a broker.

The bytes of the other direction arrive. A broker whose own requests arrive, and that gets no answers, stays alive for
the controller, because its heartbeats arrive. But its followers cannot fetch from it, so its partitions may commit
nothing until the heal.
"""

from harness.network import DropOneWay
from harness.runner.nemesis import PlannedFault
from nemeses.aiming.shapes import SHAPE_ROLES, SeparatedLinks
from nemeses.effects.links import link_fault

SENT, RECEIVED = "sent", "received"


def _loses_sent(planned: PlannedFault) -> bool:
    """Return whether the bytes are lost that the first side sends."""
    return planned.parameters["loses"] == SENT


def _make_effect(planned: PlannedFault, separated: SeparatedLinks) -> DropOneWay:
    """Return the effect: responses are lost where the end that dials is the receiver of what is lost."""
    from_first = separated.from_first
    return DropOneWay(frozenset(separated.links) - from_first if _loses_sent(planned) else from_first)


def _describe(planned: PlannedFault, separated: SeparatedLinks) -> str:
    first, second = separated.side, separated.other
    source, target = (first, second) if _loses_sent(planned) else (second, first)
    return f"the bytes from {source} to {target}"


NEMESIS = link_fault(
    "one-way",
    (
        "lose the bytes of one direction between brokers, or between a client and a broker",
        "were lost",
        "bytes of this direction were sent and lost, while the receiver answered others",
    ),
    DropOneWay,
    _make_effect,
    _describe,
    parameters={"loses": (SENT, RECEIVED)},
    # In a ring, no side is the first one.
    roles={role: choice for role, choice in SHAPE_ROLES.items() if role != "ring"},
    halts=True,
)
