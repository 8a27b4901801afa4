"""limit-bandwidth: let connections between brokers, or between a client and a broker, carry few bytes a second.

The seed draws the rate of each direction of a connection. The slowest rate carries a request of 400 kB in 8 s, and
clients give up after 10 s. A longer request may arrive after its sender has given up, which makes transactions wrong by
itself (KAFKA-17754).
"""

from harness.network import Bandwidth
from harness.runner.nemesis import PlannedFault
from nemeses.aiming.shapes import SeparatedLinks
from nemeses.effects.links import between, link_fault


def _make_effect(planned: PlannedFault, separated: SeparatedLinks) -> Bandwidth:
    return Bandwidth(int(planned.parameters["kb_per_s"]))


NEMESIS = link_fault(
    "limit-bandwidth",
    (
        "limit the bandwidth between brokers, or between a client and a broker",
        "had little bandwidth",
        "a long request took as long as the rate says, one that bypassed it did not, and bytes were sent meanwhile",
    ),
    Bandwidth,
    _make_effect,
    between("links"),
    parameters={"kb_per_s": range(50, 201)},
)
