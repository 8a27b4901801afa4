"""half-open: close the dialed ends of connections, and keep this from the ends that dial (RFC 9293 section 3.5.1).

This happens if a machine loses its power and starts again, or if a firewall forgets a connection. The end that dials
waits for its time-out, and loses what it sends meanwhile. Only the connections of the moment of the injection become
half open. New ones work.
"""

from harness.network import HalfOpen
from nemeses.effects.links import between, link_fault

NEMESIS = link_fault(
    "half-open",
    (
        "close connections at the brokers that are dialed, unnoticed by the brokers or the client that dial",
        "were half open",
        "the dialing end of a connection stayed open without the other end, and a new connection was answered",
    ),
    HalfOpen,
    lambda planned, separated: HalfOpen(),
    between("connections"),
)
