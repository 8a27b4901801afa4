"""stop-broker-clock: the wall clock of a broker stands still, and is right again at the heal.

It can be aimed at a role (`stop-broker-clock@controller`). Without a role, it is the leader of a partition.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.model.vocabulary import Premise
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.clocks import change_broker_clock


def stop_broker_clock(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Stop the clock. The fault acted if the broker writes a record with a time of the stopped clock."""
    return change_broker_clock(context, planned, rate=0.0)


NEMESIS = Nemesis(
    name="stop-broker-clock",
    summary="the wall clock of a broker stands still; without a role, a partition's leader",
    past_tense="had a clock that stood still",
    proves="the broker wrote a record with a time of the stopped clock",
    needs=frozenset({Ability.CLOCKS}),
    broken_premises=frozenset({Premise.ONE_CLOCK}),
    occupies=uses_also(Resource.CLOCKS, uses_brokers_in_role),
    hold_s=10.0,
    recovery_s=6.0,
    draw=any_leader,
    roles=ROLES,
    inject=stop_broker_clock,
    by_default=False,
)
