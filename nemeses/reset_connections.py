"""reset-connections: end connections between brokers, or from a client to a broker, and reset new ones (RST).

An existing connection is closed as soon as bytes are sent on it. A new one is accepted, and reset at its first bytes.
So both ends know at once that nothing arrives, and the end that dials tries again and again.
"""

from harness.network import ResetConnections
from nemeses.effects.links import between, link_fault

NEMESIS = link_fault(
    "reset-connections",
    (
        "end connections between brokers, or from a client to a broker, and reset new ones",
        "were reset",
        "an existing connection ended, and a new one was reset, while the receiver answered others",
    ),
    ResetConnections,
    lambda planned, separated: ResetConnections(),
    between("connections"),
)
