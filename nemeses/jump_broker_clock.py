"""jump-broker-clock: the wall clock of a broker jumps an hour ahead or behind, and back at the heal.

It can be aimed at a role (`jump-broker-clock@txn-coordinator`). Without a role, it is the leader of a partition. The
parameter `ahead_s` says how far the clock jumps. Kafka measures time-outs of transactions and of its own requests with
this clock. After a jump back, a broker does not connect to those again from which it was disconnected while its clock
was ahead, until the clock has caught up. So such a broker is killed and started again at the heal.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.model.vocabulary import Premise
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from harness.runner.occupied import uses_also
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.clocks import AHEAD_S, JUMPS_S, change_broker_clock


def jump_broker_clock(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Let the clock jump. The fault acted if the broker writes a record with a time of the changed clock."""
    return change_broker_clock(context, planned, ahead_s=float(planned.parameters["ahead_s"]))


NEMESIS = Nemesis(
    name="jump-broker-clock",
    summary="the wall clock of a broker jumps an hour ahead or behind; without a role, a partition's leader",
    past_tense="had a clock that jumped",
    proves="the broker wrote a record with a time of the changed clock",
    needs=frozenset({Ability.CLOCKS, Ability.KILL}),
    broken_premises=frozenset({Premise.ONE_CLOCK}),
    occupies=uses_also(Resource.CLOCKS, uses_brokers_in_role),
    hold_s=10.0,
    recovery_s=10.0,
    draw=any_leader,
    parameters={"ahead_s": JUMPS_S},
    limits={"ahead_s": AHEAD_S},
    roles=ROLES,
    least_brokers=FAILOVER_BROKERS,
    inject=jump_broker_clock,
    by_default=False,
)
