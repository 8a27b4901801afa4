"""Faults that impose one effect on the connections between brokers, or from a client to a broker: a row of `NEMESES`.

The seed draws the parameters of an effect. Others that separate brokers are in files of their own (`partition`,
`one_way`).
"""

from collections.abc import Sequence

from harness.network import Bandwidth, HalfOpen, Latency, RefuseConnections, ResetConnections, Slices
from harness.runner.nemesis import Nemesis
from nemeses.effects.links import between, link_fault

NEMESES: Sequence[Nemesis] = (
    # An existing connection is closed as soon as bytes are sent on it. A new one is accepted, and reset (RST) at its
    # first bytes. So both ends know at once that nothing arrives, and the end that dials tries again and again.
    link_fault(
        "reset-connections",
        (
            "end connections between brokers, or from a client to a broker, and reset new ones",
            "were reset",
            "an existing connection ended, and a new one was reset, while the receiver answered others",
        ),
        ResetConnections,
        lambda planned, separated: ResetConnections(),
        between("connections"),
    ),
    # To the end that dials, it looks as if the process of the broker had ended. But the broker lives, and others reach
    # it.
    link_fault(
        "refuse-connections",
        (
            "end connections between brokers, or from a client to a broker, and refuse new ones",
            "were refused",
            "an existing connection ended, and a new one was refused, while the receiver answered others",
        ),
        RefuseConnections,
        lambda planned, separated: RefuseConnections(),
        between("connections"),
    ),
    # RFC 9293, section 3.5.1. This happens if a machine loses its power and starts again, or if a firewall forgets a
    # connection. The end that dials waits for its time-out, and loses what it sends meanwhile. Only the connections of
    # the moment of the injection become half open. New ones work.
    link_fault(
        "half-open",
        (
            "close connections at the brokers that are dialed, unnoticed by the brokers or the client that dial",
            "were half open",
            "the dialing end of a connection stayed open without the other end, and a new connection was answered",
        ),
        HalfOpen,
        lambda planned, separated: HalfOpen(),
        between("connections"),
    ),
    # Bytes arrive later in each direction, in order. Toxiproxy draws the delay of each packet within the bounds that
    # the seed draws, so a replay repeats the bounds, and not each delay. A request and its response take at most 0.36 s
    # longer. The shortest time-out of a request is 1 s, between controllers, which let a request wait for 0.5 s. So no
    # request arrives after its sender has given up, and a correct pipeline stays correct.
    link_fault(
        "slow-network",
        (
            "delay the bytes between brokers, or between a client and a broker",
            "were slow",
            "a request took as long as the delay, one that bypassed it did not, and bytes were sent meanwhile",
        ),
        Latency,
        lambda planned, separated: Latency(
            int(planned.parameters["latency_ms"]), int(planned.parameters["jitter_ms"])
        ),
        between("links"),
        parameters={"latency_ms": range(80, 151), "jitter_ms": range(31)},
    ),
    # The slowest rate carries a request of 400 kB in 8 s, and clients give up after 10 s. A longer request may arrive
    # after its sender has given up, which makes transactions wrong by itself (KAFKA-17754).
    link_fault(
        "limit-bandwidth",
        (
            "limit the bandwidth between brokers, or between a client and a broker",
            "had little bandwidth",
            "a long request took as long as the rate says, one that bypassed it did not, and bytes were sent meanwhile",
        ),
        Bandwidth,
        lambda planned, separated: Bandwidth(int(planned.parameters["kb_per_s"])),
        between("links"),
        parameters={"kb_per_s": range(50, 201)},
    ),
    # A receiver that expects a whole message, or the whole length of one, in one read is wrong. TCP promises only the
    # order of bytes.
    link_fault(
        "slice-packets",
        (
            "let the bytes between brokers, or between a client and a broker, arrive in small pieces",
            "were sliced",
            "a response came in more pieces than one that bypassed it, and bytes were sent meanwhile",
        ),
        Slices,
        lambda planned, separated: Slices(int(planned.parameters["slice_bytes"])),
        between("packets"),
        parameters={"slice_bytes": range(50, 201)},
    ),
)
