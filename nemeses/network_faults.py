"""Faults that impose one effect on the connections between brokers, or from a client to a broker: a row each.

The seed draws the parameters of an effect, and the shape (`nemeses/aiming/shapes.py`) if the user chooses none.
"""

from collections.abc import Sequence

from harness.network import (
    Bandwidth,
    Cut,
    DropOneWay,
    HalfOpen,
    Latency,
    RefuseConnections,
    ResetConnections,
    Slices,
)
from harness.runner.nemesis import InjectedFault, PlannedFault
from nemeses.aiming.shapes import SHAPE_ROLES, SeparatedLinks
from nemeses.effects.links import LinkFault, between

SENT, RECEIVED = "sent", "received"


def _cut_off(planned: PlannedFault, separated: SeparatedLinks) -> InjectedFault:
    side, other = separated.side, separated.other
    return InjectedFault(target=f"{side} from {other}", short_target=separated.subject, other=other)


def _loses_sent(planned: PlannedFault) -> bool:
    """Return whether the bytes are lost that the first side sends."""
    return planned.parameters["loses"] == SENT


def _drop_one_way(planned: PlannedFault, separated: SeparatedLinks) -> DropOneWay:
    """Return the effect: responses are lost where the end that dials is the receiver of what is lost."""
    from_first = separated.from_first
    return DropOneWay(frozenset(separated.links) - from_first if _loses_sent(planned) else from_first)


def _bytes_of_direction(planned: PlannedFault, separated: SeparatedLinks) -> InjectedFault:
    first, second = separated.side, separated.other
    source, target = (first, second) if _loses_sent(planned) else (second, first)
    return InjectedFault(target=f"the bytes from {source} to {target}")


FAULTS: Sequence[LinkFault] = (
    # Existing connections carry no more bytes in either direction. New connections are accepted, but carry no bytes.
    # Bytes are lost, not delayed: a delay would be another fault, because a request that arrives late makes
    # transactions wrong by itself (KAFKA-17754).
    LinkFault(
        name="partition",
        summary="cut brokers off from each other, or a client from a broker, losing what is in flight",
        past_tense="was cut off",
        proves="bytes that were sent into a link were lost, while the receiver answered others",
        effect=Cut,
        subject=_cut_off,
        by_default=True,
    ),
    # The bytes of the other direction arrive. A broker whose own requests arrive, and that gets no answers, stays alive
    # for the controller, because its heartbeats arrive. But its followers cannot fetch from it, so its partitions may
    # commit nothing until the heal. In a ring, no side is the first one.
    LinkFault(
        name="one-way",
        summary="lose the bytes of one direction between brokers, or between a client and a broker",
        past_tense="were lost",
        proves="bytes of this direction were sent and lost, while the receiver answered others",
        effect=DropOneWay,
        subject=_bytes_of_direction,
        make=_drop_one_way,
        parameters={"loses": (SENT, RECEIVED)},
        roles={role: choice for role, choice in SHAPE_ROLES.items() if role != "ring"},
        halts=True,
    ),
    # An existing connection is closed as soon as bytes are sent on it. A new one is accepted, and reset (RST) at its
    # first bytes. So both ends know at once that nothing arrives, and the end that dials tries again and again.
    LinkFault(
        name="reset-connections",
        summary="end connections between brokers, or from a client to a broker, and reset new ones",
        past_tense="were reset",
        proves="an existing connection ended, and a new one was reset, while the receiver answered others",
        effect=ResetConnections,
        subject=between("connections"),
    ),
    # To the end that dials, it looks as if the process of the broker had ended. But the broker lives, and others reach
    # it.
    LinkFault(
        name="refuse-connections",
        summary="end connections between brokers, or from a client to a broker, and refuse new ones",
        past_tense="were refused",
        proves="an existing connection ended, and a new one was refused, while the receiver answered others",
        effect=RefuseConnections,
        subject=between("connections"),
    ),
    # This happens if a machine loses its power and starts again, or if a firewall forgets a connection. The end that
    # dials waits for its time-out, and loses what it sends meanwhile. Only the connections of the moment of the
    # injection become half open. New ones work.
    LinkFault(
        name="half-open",
        summary="close connections at the brokers that are dialed, unnoticed by the brokers or the client that dial",
        past_tense="were half open",
        proves="the dialing end of a connection stayed open without the other end, and a new connection was answered",
        effect=HalfOpen,
        subject=between("connections"),
        sources=("RFC 9293, section 3.5.1",),
    ),
    # Bytes arrive later in each direction, in order. Toxiproxy draws the delay of each packet within the bounds that
    # the seed draws, so a replay repeats the bounds, and not each delay. A request and its response take at most 0.36 s
    # longer. The shortest time-out of a request is 1 s, between controllers, which let a request wait for 0.5 s. So no
    # request arrives after its sender has given up, and a correct pipeline stays correct.
    LinkFault(
        name="slow-network",
        summary="delay the bytes between brokers, or between a client and a broker",
        past_tense="were slow",
        proves="a request took as long as the delay, one that bypassed it did not, and bytes were sent meanwhile",
        effect=Latency,
        subject=between("links"),
        parameters={"latency_ms": range(80, 151), "jitter_ms": range(31)},
    ),
    # The slowest rate carries a request of 400 kB in 8 s, and clients give up after 10 s. A longer request may arrive
    # after its sender has given up, which makes transactions wrong by itself (KAFKA-17754).
    LinkFault(
        name="limit-bandwidth",
        summary="limit the bandwidth between brokers, or between a client and a broker",
        past_tense="had little bandwidth",
        proves="a long request took as long as the rate says, one that bypassed it did not, and bytes were sent "
        "meanwhile",
        effect=Bandwidth,
        subject=between("links"),
        parameters={"kb_per_s": range(50, 201)},
    ),
    # A receiver that expects a whole message, or the whole length of one, in one read is wrong. TCP promises only the
    # order of bytes.
    LinkFault(
        name="slice-packets",
        summary="let the bytes between brokers, or between a client and a broker, arrive in small pieces",
        past_tense="were sliced",
        proves="a response came in more pieces than one that bypassed it, and bytes were sent meanwhile",
        effect=Slices,
        subject=between("packets"),
        parameters={"slice_bytes": range(50, 201)},
    ),
)
NEMESES = tuple(fault.nemesis() for fault in FAULTS)
