"""drop-packets: the kernel drops every packet from and to a broker, as a firewall or a broken switch does.

A proxy cannot drop a connection request, because it accepts every connection at once. With this fault the SYN packet
is lost, so a new connection fails only after a time-out. Existing connections are not closed, so both ends wait for
their time-outs.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_leader
from nemeses.effects.isolation import isolate_leader


def drop_packets(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Drop packets. The fault acted if the kernel counted dropped packets, and another broker leads the partition."""
    return isolate_leader(context, planned, Ability.PACKETS)


NEMESIS = Nemesis(
    name="drop-packets",
    summary="drop every packet from and to the leader of a partition, including connection requests",
    past_tense="was cut off by iptables",
    proves="the kernel counted dropped packets, and another broker leads the partition",
    needs=frozenset({Ability.PACKETS}),
    occupies=uses_brokers,
    hold_s=10.0,
    recovery_s=8.0,
    draw=any_leader,
    least_brokers=FAILOVER_BROKERS,
    inject=drop_packets,
    by_default=False,
)
