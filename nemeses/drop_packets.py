"""drop-packets: the kernel drops each packet from and to a broker, as a firewall or a dead switch does.

A proxy cannot lose a connection request: whoever dials it is connected at once. Here the SYN is lost, so that
connecting takes until it times out; nobody closes the connections that stand, and both ends wait until they give up.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import all_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.isolation import isolate_leader


def drop_packets(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """It acted if the kernel counted packets that it dropped, and another broker leads the partition."""
    return isolate_leader(context, planned, Ability.PACKETS)


NEMESIS = Nemesis(
    name="drop-packets",
    summary="drop every packet from and to the leader of a partition, connection requests among them",
    past_tense="was cut off by iptables",
    needs=frozenset({Ability.PACKETS}),
    occupies=all_brokers,
    hold_s=10.0,
    recovery_s=8.0,
    draw=any_leader,
    least_brokers=FAILOVER_BROKERS,
    inject=drop_packets,
    by_default=False,
)
