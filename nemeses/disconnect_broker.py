"""disconnect-broker: disconnect a broker's container from its network, as if its network cable was pulled.

The broker loses its network interface and its address. When it sends, it gets an error at once. Its peers and clients
receive nothing. Its name cannot be resolved until it is connected again.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.isolation import isolate_leader


def disconnect_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Disconnect the leader. The fault acted if Docker confirms it, and another broker leads the partition."""
    return isolate_leader(context, planned, Ability.DISCONNECT)


NEMESIS = Nemesis(
    name="disconnect-broker",
    summary="disconnect the leader of a partition from its network, and connect it again",
    past_tense="was disconnected",
    proves="Docker confirms it, and another broker leads the partition",
    needs=frozenset({Ability.DISCONNECT}),
    occupies=uses_brokers,
    hold_s=10.0,
    recovery_s=8.0,
    draw=any_leader,
    least_brokers=FAILOVER_BROKERS,
    inject=disconnect_broker,
    by_default=False,
)
