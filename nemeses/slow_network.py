"""slow-network: delay the bytes between brokers, or between a client and a broker.

Bytes arrive later in each direction, in order. The seed draws the delay and how far it varies. Toxiproxy draws the
delay of each packet within these bounds, so a replay repeats the bounds, and not each delay.

A request and its response take at most 0.36 s longer. The shortest time-out of a request is 1 s, between controllers,
which let a request wait for 0.5 s. So no request arrives after its sender has given up, and a correct pipeline stays
correct.
"""

from harness.network import Latency
from harness.runner.nemesis import PlannedFault
from nemeses.aiming.shapes import SeparatedLinks
from nemeses.effects.links import between, link_fault


def _make_effect(planned: PlannedFault, separated: SeparatedLinks) -> Latency:
    return Latency(int(planned.parameters["latency_ms"]), int(planned.parameters["jitter_ms"]))


NEMESIS = link_fault(
    "slow-network",
    (
        "delay the bytes between brokers, or between a client and a broker",
        "were slow",
        "a request took as long as the delay, one that bypassed it did not, and bytes were sent meanwhile",
    ),
    Latency,
    _make_effect,
    between("links"),
    parameters={"latency_ms": range(80, 151), "jitter_ms": range(31)},
)
