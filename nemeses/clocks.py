"""Faults that change the wall clock of a broker, a worker or an instance: a row of `NEMESES` each.

Only the clock that its process sees is changed, through the preloaded library. Its monotonic clock is right, and its
waits and sleeps keep their lengths. A fault on a broker can be aimed at a role (`drift-broker-clock@controller`).
Without a role, its target is the leader of a partition.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random

from harness.cluster import Ability, Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Premise
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
    Resource,
    Target,
    uses_also,
    uses_workers,
)
from harness.witness.segments import ReplicaDamage, read_log
from nemeses.aiming.roles import FAILOVER_BROKERS, ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader, choose
from nemeses.effects.brokers import change_in_role
from nemeses.effects.instance_member import InstanceMember, any_instance
from nemeses.effects.member import Member
from nemeses.effects.worker_member import WorkerMember

JUMPS_S = (3600.0, -3600.0)
"""An hour ahead or behind, as after a mistake with time zones."""
AHEAD_S = (-10 * 365 * 86400.0, 10 * 365 * 86400.0)
RATES = (0.0, 10.0)
"""The smallest and the largest number that a schedule may have: a jump, and the seconds that pass in each second."""
CATCHES_UP_S = 5.0
"""A broker whose clock is set back by less connects again soon enough without a restart."""
SEEN_TIMEOUT_S = 20.0
GOAL = "time-of-records"


def change_broker_clock(
    context: FaultContext, planned: PlannedFault, ahead_s: float = 0.0, rate: float = 1.0
) -> AbstractContextManager[InjectedFault]:
    """Set the clock of the brokers that have the role, and set it back at the heal.

    The fault acted if, before the heal, each of the brokers writes a record with a time stamp of the changed clock. A
    broker whose clock is then more than `CATCHES_UP_S` ahead is killed and started again.

    Args:
        context: The parts of the run.
        planned: The fault.
        ahead_s: How far the clock jumps ahead. Negative: behind.
        rate: How many seconds it then moves on in each second.
    """
    begun_s: dict[int, float] = {}

    def change(broker: Broker) -> None:
        context.cluster.clock_ahead_s(broker.id)  # so that the topic of this record exists
        begun_s[broker.id] = time.monotonic()
        broker.preload.set_clock(ahead_s, rate)

    def prove(broker: Broker) -> str:
        measured_s = 0.0

        def is_changed() -> bool:
            nonlocal measured_s
            expected_s = ahead_s + (rate - 1) * (time.monotonic() - begun_s[broker.id])
            measured_s = context.cluster.clock_ahead_s(broker.id)
            return abs(measured_s - expected_s) < abs(expected_s) / 2

        context.wait_for(
            is_changed,
            f"broker {broker.id} to write a record with a time of the changed clock",
            SEEN_TIMEOUT_S,
            every_s=0.5,
            last_seen=lambda: in_words(measured_s),
        )
        return f"broker {broker.id} wrote a record with a time {in_words(measured_s)}"

    def heal(broker: Broker) -> None:
        if broker.id not in begun_s:
            return
        ahead_now_s = ahead_s + (rate - 1) * (time.monotonic() - begun_s[broker.id])
        broker.preload.set_clock()
        if ahead_now_s > CATCHES_UP_S:
            # Else Kafka does not connect again before its clock has caught up with the last connection.
            broker.kill()
            broker.start()

    return change_in_role(context, planned, change, prove, heal)


@contextmanager
def jump_member_clock(
    kind: type[Member], context: FaultContext, planned: PlannedFault
) -> Iterator[InjectedFault]:
    """Let the clock of a worker or an instance jump by the parameter `ahead_s`, and set it back at the heal.

    The fault acted if, before that, a record with a time of the changed clock was added to an output topic. Raises
    `FaultFailed`.
    """
    member = kind.find(context, planned)
    effect, process = member.effect, member.process
    if process.preload is None:
        raise FaultFailed(f"{process.journal} was started without the preloaded library")
    ahead_s = float(planned.parameters["ahead_s"])
    topics = member.stage.writes
    # An earlier fault may have left records with such times.
    ends = {partition: end for partition, (_, _, end) in context.cluster.log_offsets(topics).items()}
    process.preload.set_clock(ahead_s)
    effect.mark_injected()
    try:
        yield effect
        effect.add_proof(
            context.wait_for(
                lambda: _written_with_time(context, topics, ends, ahead_s),
                f"a record in an output topic with a time {in_words(ahead_s)}",
                SEEN_TIMEOUT_S,
                every_s=0.5,
            )
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    finally:
        process.preload.set_clock()
        effect.mark_healed()
    member.note_unready()


def _written_with_time(
    context: FaultContext, topics: Sequence[str], ends: Mapping[TopicPartition, int], ahead_s: float
) -> str:
    """Describe a record in the log of a leader whose time is near that of a changed clock. "" if there is none.

    Records before `ends` do not count.
    """
    folders = {broker.id: broker.data_dir for broker in context.cluster.brokers}
    for topic in topics:
        for number, view in context.cluster.describe(topic).items():
            if view.leader not in folders:
                continue
            for batch in read_log(folders[view.leader] / f"{topic}-{number}", ReplicaDamage()):
                is_s = batch.max_timestamp_ms / 1000 - time.time()
                is_new = batch.base_offset >= ends.get((topic, number), 0)
                if is_new and not batch.control and abs(is_s - ahead_s) < abs(ahead_s) / 2:
                    return f"the record {topic}/{number} @ {batch.last_offset} has a time {in_words(is_s)}"
    return ""


def in_words(ahead_s: float) -> str:
    """Describe a wrong clock for a message: "3,600.0 s behind the clock of this machine"."""
    return f"{abs(ahead_s):,.1f} s {'behind' if ahead_s < 0 else 'ahead of'} the clock of this machine"


def _any_writer(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Draw a worker of a stage that writes topics."""
    if not any(targets.steps.values()):
        raise NotForThisPipeline("a workload")
    stages = [name for name in targets.stages if targets.writes.get(name) and targets.workers[name]]
    stage = choose(rng, stages, "a stage whose workers write a topic")
    return DrawnFault(Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}"))


def _jump_of_member(
    name: str, whose: str, kind: type[Member], draw: Callable[[Random, FaultTargets], DrawnFault]
) -> Nemesis:
    return Nemesis(
        name=name,
        summary=f"the wall clock of {whose} jumps an hour ahead or behind",
        past_tense="had a clock that jumped",
        proves="a record with a time of the changed clock is in an output topic",
        needs=frozenset({Ability.CLOCKS, Ability.SEGMENTS}),
        broken_premises=frozenset({Premise.ONE_CLOCK}),
        occupies=uses_also(Resource.CLOCKS, uses_workers),
        hold_s=8.0,
        recovery_s=4.0,
        draw=draw,
        parameters={"ahead_s": JUMPS_S},
        limits={"ahead_s": AHEAD_S},
        inject=partial(jump_member_clock, kind),
        by_default=False,
    )


NEMESES: Sequence[Nemesis] = (
    # The parameter `ahead_s` says how far the clock jumps. Kafka measures time-outs of transactions and of its own
    # requests with this clock. After a jump back, a broker does not connect to those again from which it was
    # disconnected while its clock was ahead, until the clock has caught up. So such a broker is killed and started
    # again at the heal.
    Nemesis(
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
        inject=lambda context, planned: change_broker_clock(
            context, planned, ahead_s=float(planned.parameters["ahead_s"])
        ),
        by_default=False,
    ),
    # The clock is that of the C library, so a program that does not use it is not affected, for example one in Go.
    _jump_of_member(
        "jump-instance-clock",
        "an instance of your own program",
        InstanceMember,
        partial(any_instance, share=0.0),
    ),
    # The client writes the time of this clock into its records (CreateTime). It measures time-outs with the monotonic
    # clock, which stays right.
    _jump_of_member("jump-worker-clock", "a worker", WorkerMember, _any_writer),
    # The parameter `rate` says how many seconds the clock moves on in each second.
    Nemesis(
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
        inject=lambda context, planned: change_broker_clock(
            context, planned, rate=float(planned.parameters["rate"])
        ),
        by_default=False,
    ),
    Nemesis(
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
        inject=lambda context, planned: change_broker_clock(context, planned, rate=0.0),
        by_default=False,
    ),
)
