"""kill-txn-coordinator: kill the broker that coordinates a transactional id with SIGKILL, and start it again.

It can be aimed at a step of a worker's loop, and at a state of a transaction: `kill-txn-coordinator@prepare-commit`.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.network import Cut
from harness.runner.nemesis import ExtraNeeds, FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import uses_brokers
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.targets import any_txn_coordinator
from nemeses.aiming.transaction_states import AIMS, STATES_WITHOUT_MARKERS, kill_in_state
from nemeses.effects.brokers import inject_on_role, kill, start


def kill_txn_coordinator(
    context: FaultContext, planned: PlannedFault
) -> AbstractContextManager[InjectedFault]:
    """Kill the coordinator. The fault acted if the signal ended its process, and another broker coordinates the id."""
    if planned.state is not None:
        return kill_in_state(context, planned)
    return inject_on_role(context, planned, kill, start)


NEMESIS = Nemesis(
    name="kill-txn-coordinator",
    summary="kill -9 the coordinator of a worker's transactional id, and start it again",
    past_tense="was killed",
    proves="the signal ended its process, and another broker coordinates the transactional id",
    needs=frozenset({Ability.KILL}),
    occupies=uses_brokers,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_txn_coordinator,
    aimable=True,
    states=frozenset(AIMS),
    extra_needs_by_state=dict.fromkeys(
        STATES_WITHOUT_MARKERS, ExtraNeeds(needs=frozenset({Ability.PEER_LINKS, Cut}))
    ),
    least_brokers=FAILOVER_BROKERS,
    inject=kill_txn_coordinator,
)
