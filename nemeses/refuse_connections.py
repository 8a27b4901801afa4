"""refuse-connections: close a port of brokers, for brokers or for a client: connections end, and new ones are refused.

To the end that dials, it looks as if the process of the broker had ended. But the broker lives, and others reach it.
"""

from harness.network import RefuseConnections
from nemeses.effects.links import between, link_fault

NEMESIS = link_fault(
    "refuse-connections",
    (
        "end connections between brokers, or from a client to a broker, and refuse new ones",
        "were refused",
        "an existing connection ended, and a new one was refused, while the receiver answered others",
    ),
    RefuseConnections,
    lambda planned, separated: RefuseConnections(),
    between("connections"),
)
