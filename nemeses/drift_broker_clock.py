"""drift-broker-clock: the wall clock of a broker runs a tenth too fast or too slow, and is right again at the heal.

It can be aimed at a role (`drift-broker-clock@controller`). Without a role, it is the leader of a partition. The
parameter `rate` says how many seconds the clock moves on in each second.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.model.vocabulary import Premise
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.clocks import RATES, change_broker_clock


def drift_broker_clock(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Let the clock drift. The fault acted if the broker writes a record with a time of the changed clock."""
    return change_broker_clock(context, planned, rate=float(planned.parameters["rate"]))


NEMESIS = Nemesis(
    name="drift-broker-clock",
    summary="the wall clock of a broker runs a tenth too fast or too slow; without a role, a partition's leader",
    past_tense="had a clock that drifted",
    proves="the broker wrote a record with a time of the changed clock",
    needs=frozenset({Ability.CLOCKS, Ability.KILL}),
    broken_premises=frozenset({Premise.ONE_CLOCK}),
    occupies=uses_also(Resource.CLOCKS, uses_brokers_in_role),
    hold_s=10.0,
    recovery_s=6.0,
    draw=any_leader,
    parameters={"rate": (0.9, 1.1)},
    limits={"rate": RATES},
    roles=ROLES,
    inject=drift_broker_clock,
    by_default=False,
)
