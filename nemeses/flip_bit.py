"""flip-bit: shut down a broker, flip a bit of a record in a segment file, and start the broker again.

After a clean shutdown, Kafka does not check old segments: neither the broker nor its peers notice the bit until someone
reads the record from this replica. It can be aimed at `leader` or `follower` of a partition. The parameter `share` says
which record: 0 is the first one, 1 the last one.
"""

from contextlib import AbstractContextManager

from harness.cluster import Ability
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from nemeses.aiming.failover import FAILOVER_BROKERS
from nemeses.aiming.roles import uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects import files
from nemeses.effects.brokers import shut_down


def flip_bit(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
    """Damage the replica. The fault acted if the byte on the disk changed, and another broker took over its role."""
    return files.damage_stopped(context, planned, shut_down, lambda broker: files.flip_bit(broker, planned))


NEMESIS = Nemesis(
    name="flip-bit",
    summary="shut down a broker, flip a bit in a segment file, start it again; without a role, the leader",
    past_tense="was restarted with a flipped bit",
    proves="the byte on the disk was changed while the broker was down, and it had left its role or the ISR",
    needs=frozenset({Ability.KILL, Ability.FILES}),
    occupies=uses_brokers_in_role,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_leader,
    parameters={"share": files.SHARES},
    limits={"share": (0.0, 1.0)},
    roles=files.REPLICAS,
    least_brokers=FAILOVER_BROKERS,
    least_replicas=2,
    inject=flip_bit,
    by_default=False,
)
