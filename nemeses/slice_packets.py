"""slice-packets: let the bytes between brokers, or between a client and a broker, arrive in many small pieces.

A receiver that expects a whole message, or the whole length of one, in one read is wrong. TCP promises only the order
of bytes. The seed draws the size of the pieces.
"""

from harness.network import Slices
from harness.runner.nemesis import PlannedFault
from nemeses.aiming.shapes import SeparatedLinks
from nemeses.effects.links import between, link_fault


def _make_effect(planned: PlannedFault, separated: SeparatedLinks) -> Slices:
    return Slices(int(planned.parameters["slice_bytes"]))


NEMESIS = link_fault(
    "slice-packets",
    (
        "let the bytes between brokers, or between a client and a broker, arrive in small pieces",
        "were sliced",
        "a response came in more pieces than one that bypassed it, and bytes were sent meanwhile",
    ),
    Slices,
    _make_effect,
    between("packets"),
    parameters={"slice_bytes": range(50, 201)},
)
