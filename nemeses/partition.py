"""partition: cut brokers off from each other, or a client from a broker. Bytes in flight are lost.

Existing connections carry no more bytes in either direction. New connections are accepted, but carry no bytes. Bytes
are lost, not delayed: a delay would be another fault, because a request that arrives late makes transactions wrong by
itself (KAFKA-17754).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.network import Cut
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.shapes import SHAPE_ROLES, any_shape, separate, uses_links
from nemeses.effects.links import HOLD_S, RECOVERY_S, on_links


@contextmanager
def partition(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Cut the links. The fault acted if bytes sent into a link were lost, while the receiver answered others."""
    cut = separate(context, planned.target)
    effect = InjectedFault(target=f"{cut.side} from {cut.other}", short_target=cut.subject, other=cut.other)
    with on_links(context, cut, Cut(), effect):
        yield effect


NEMESIS = Nemesis(
    name="partition",
    summary="cut brokers off from each other, or a client from a broker, losing what is in flight",
    past_tense="was cut off",
    proves="bytes that were sent into a link were lost, while the receiver answered others",
    needs=frozenset({Cut}),
    occupies=uses_links,
    hold_s=HOLD_S,
    recovery_s=RECOVERY_S,
    draw=any_shape,
    roles=SHAPE_ROLES,
    inject=partition,
)
