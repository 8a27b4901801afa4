"""disconnect-broker: a broker's container is taken from its network, as a cable that is pulled.

Its interface and its address are gone: what it sends fails at once, its peers and clients hear nothing, and its name
resolves to nothing until it is back.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import all_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.isolation import isolate_leader


def disconnect_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """It acted if Docker says that it is on that network no more, and another broker leads the partition."""
    return isolate_leader(context, planned, Ability.DISCONNECT)


NEMESIS = Nemesis(
    name="disconnect-broker",
    summary="take the leader of a partition from its network, and put it back",
    past_tense="was disconnected",
    needs=frozenset({Ability.DISCONNECT}),
    occupies=all_brokers,
    hold_s=10.0,
    recovery_s=8.0,
    draw=any_leader,
    least_brokers=FAILOVER_BROKERS,
    inject=disconnect_broker,
    by_default=False,
)
