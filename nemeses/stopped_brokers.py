"""Faults that stop a broker until another broker has taken over its role: a row of `NEMESES` each.

A fault with `roles` can be aimed at a role (`kill-broker@controller`). Without a role, its target is the leader of a
partition. A fault that is `aimable` can also wait until a worker is at a step of its loop.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from harness.cluster import Ability, Broker
from harness.network import Cut
from harness.runner.nemesis import (
    ExtraNeeds,
    FaultContext,
    InjectedFault,
    Nemesis,
    PlannedFault,
    uses_brokers,
)
from nemeses.aiming.roles import FAILOVER_BROKERS, ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_group_coordinator, any_leader, any_txn_coordinator
from nemeses.aiming.transaction_states import (
    AFTER,
    AIMS,
    BEFORE,
    STATES_WITHOUT_MARKERS,
    kill_around_markers,
    kill_in_state,
)
from nemeses.effects.brokers import inject_on_role, kill, pause, resume, shut_down, start

Inject = Callable[[FaultContext, PlannedFault], AbstractContextManager[InjectedFault]]


def _stopped_by(
    stop: Callable[[Broker], str], heal: Callable[[Broker], object], in_state: Inject | None = None
) -> Inject:
    """Return the injection of a fault. If the fault is aimed at a state of a transaction, `in_state` injects it."""

    def inject(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
        if in_state is not None and planned.state is not None:
            return in_state(context, planned)
        return inject_on_role(context, planned, stop, heal)

    return inject


NEMESES: Sequence[Nemesis] = (
    # The broker starts again on its old data. It can also be aimed at the markers of a transaction:
    # `kill-broker@before-markers`.
    Nemesis(
        name="kill-broker",
        summary="kill -9 a broker, and start it again; without a role, the leader of a partition",
        past_tense="was killed",
        proves="the signal ended its process, and another broker took over a role that can move, or it left the ISR",
        needs=frozenset({Ability.KILL}),
        occupies=uses_brokers_in_role,
        hold_s=8.0,
        recovery_s=10.0,
        draw=any_leader,
        aimable=True,
        roles=ROLES,
        states=frozenset({BEFORE, AFTER}),
        least_brokers=FAILOVER_BROKERS,
        inject=_stopped_by(kill, start, in_state=kill_around_markers),
    ),
    # It lasts until the session of the broker with the controller has ended. The broker keeps its sockets. When it is
    # resumed, it still acts as the leader for a moment, so its first responses are stale.
    Nemesis(
        name="pause-broker",
        summary="SIGSTOP a broker until others have taken over, then SIGCONT; without a role, the leader of a "
        "partition",
        past_tense="was paused",
        proves="the kernel reports its process as stopped, and another broker took over its role or it left the ISR",
        needs=frozenset({Ability.PAUSE}),
        occupies=uses_brokers_in_role,
        hold_s=9.0,
        recovery_s=6.0,
        draw=any_leader,
        aimable=True,
        roles=ROLES,
        least_brokers=FAILOVER_BROKERS,
        inject=_stopped_by(pause, resume),
    ),
    # As for an upgrade. The broker hands its roles over to others before it ends (a controlled shutdown). While it
    # still answers, it sends its clients to the next leader or coordinator.
    Nemesis(
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
        inject=_stopped_by(shut_down, start),
        by_default=False,
    ),
    # It can be aimed at a state of a transaction, too: `kill-txn-coordinator@prepare-commit`.
    Nemesis(
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
        inject=_stopped_by(kill, start, in_state=kill_in_state),
    ),
    Nemesis(
        name="kill-group-coordinator",
        summary="kill -9 the coordinator of a stage's consumer group, and start it again",
        past_tense="was killed",
        proves="the signal ended its process, and another broker coordinates the group",
        needs=frozenset({Ability.KILL}),
        occupies=uses_brokers,
        hold_s=8.0,
        recovery_s=10.0,
        draw=any_group_coordinator,
        aimable=True,
        least_brokers=FAILOVER_BROKERS,
        inject=_stopped_by(kill, start),
    ),
)
