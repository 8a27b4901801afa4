"""restart-broker: shut a broker down with SIGTERM, as for an upgrade, and start it again on its old data.

The broker hands its roles over to others before it ends (a controlled shutdown). While it still answers, it sends its
clients to the next leader or coordinator. Without a role after @, it is the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, shut_down, start


def restart_broker(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Shut the broker down. The fault acted if its process ended cleanly, and another broker took over its role."""
    return inject_on_role(context, planned, shut_down, start)


NEMESIS = Nemesis(
    name="restart-broker",
    summary="shut down a broker with SIGTERM, and start it again; without a role, the leader of a partition",
    past_tense="was restarted",
    proves="its process shut down cleanly, and another broker took over a role that can move, or it left the ISR",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers_in_role,
    hold_s=6.0,
    recovery_s=10.0,
    draw=any_leader,
    aimable=True,
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=restart_broker,
    by_default=False,
)
