"""Faults that damage the files of a stopped broker: a row of `NEMESES` each.

Each can be aimed at a role of a broker. The functions that damage files return their proof: what the files were before,
and are now.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

from harness.cluster import Ability, Broker
from harness.cluster.started_node import format_node
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    PlannedFault,
    TargetMissing,
)
from harness.witness.segments import HEADER, ReplicaDamage, read_log, segment_files
from nemeses.aiming.roles import FAILOVER_BROKERS, ROLES, uses_brokers_in_role
from nemeses.aiming.targets import any_leader
from nemeses.effects.brokers import inject_on_role, kill, shut_down, start

META_PROPERTIES = "meta.properties"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The values of the parameter `share`."""
REPLICAS = {role: ROLES[role] for role in ("leader", "follower")}
"""The roles of a broker whose replica of one partition is damaged."""
ONE_BROKER = {role: choice for role, choice in ROLES.items() if role not in ("minority", "majority", "all")}


def _damaged_by(
    damage: Callable[[Broker, PlannedFault], str],
    stop: Callable[[Broker], str] = kill,
    *,
    needs_other_replica: bool = True,
) -> Callable[[FaultContext, PlannedFault], AbstractContextManager[InjectedFault]]:
    """Return the injection of a fault: stop the brokers that have a role, damage their files, and start them again.

    `stop` and `damage` return their proofs. The fault acted if the files of each broker changed, and another broker
    took over the role. With `needs_other_replica`, the injection raises `TargetMissing` if a broker has the only
    replica in sync of a partition: then the damage would destroy acknowledged records.
    """

    def inject(context: FaultContext, planned: PlannedFault) -> AbstractContextManager[InjectedFault]:
        def stop_and_damage(broker: Broker) -> str:
            if needs_other_replica:
                _require_other_replica(context, broker)
            ending, damaged = stop(broker), damage(broker, planned)
            return f"{ending}; {damaged}" if damaged else ""

        return inject_on_role(context, planned, stop_and_damage, start)

    return inject


def _require_other_replica(context: FaultContext, broker: Broker) -> None:
    for topic in (*context.topics, CONSUMER_OFFSETS, TRANSACTION_STATE):
        for number, view in context.cluster.describe(topic).items():
            if view.isr == (broker.id,):
                raise TargetMissing(f"broker {broker.id} has the only replica of {topic}/{number} in sync")


def flip_bit(broker: Broker, planned: PlannedFault) -> str:
    """Flip a bit in the middle of a batch in the log of the target's partition. Return "" if the byte did not change.

    The parameter `share` says where: 0 is the first batch of records, 1 the last one. Raises `TargetMissing` if the log
    has no record.
    """
    folder = _log_folder(broker, planned)
    batches = [
        (batch.base_offset, (batch.position + HEADER.size + batch.end) // 2)
        for batch in read_log(folder, ReplicaDamage())
        if batch.records and not batch.control
    ]
    if not batches:
        raise TargetMissing(f"broker {broker.id} has no record of {planned.target.name} yet")
    offset, position = batches[round(_share(planned) * (len(batches) - 1))]
    segment = next(file for file in reversed(segment_files(folder)) if int(file.stem) <= offset)
    before = segment.read_bytes()[position]
    with segment.open("r+b") as file:
        file.seek(position)
        file.write(bytes([before ^ 1]))
    after = segment.read_bytes()[position]
    changed = f"byte {position} of {folder.name}/{segment.name} was {before:#04x} and is {after:#04x}"
    return f"{changed}, in the batch at offset {offset}" if after != before else ""


def truncate_segment(broker: Broker, planned: PlannedFault) -> str:
    """Cut off the end of the log of the target's partition. Return "" if the file is not shorter.

    The parameter `share` says how much of its last segment is lost. Raises `TargetMissing` if the log is empty.
    """
    folder = _log_folder(broker, planned)
    filled = [file for file in segment_files(folder) if file.stat().st_size]
    if not filled:
        raise TargetMissing(f"broker {broker.id} has no record of {planned.target.name} yet")
    before = filled[-1].stat().st_size
    with filled[-1].open("r+b") as file:
        file.truncate(before - max(1, round(_share(planned) * before)))
    after = filled[-1].stat().st_size
    return f"{folder.name}/{filled[-1].name} had {before} bytes and has {after}" if after < before else ""


def empty_disk(broker: Broker) -> str:
    """Delete all data of a broker, and format the folder anew, as a user does after a disk was replaced."""
    properties = dict(
        line.split("=", 1)
        for line in (broker.data_dir / META_PROPERTIES).read_text(encoding="utf-8").splitlines()
        if "=" in line
    )
    files = [file for file in broker.data_dir.rglob("*") if file.is_file()]
    size_kb = sum(file.stat().st_size for file in files) // 1000
    shutil.rmtree(broker.data_dir)
    format_node(broker.data_dir, properties["cluster.id"], broker.id, {})
    return f"its {len(files)} files with {size_kb:,} kB were deleted, and it has a new directory id"


def lose_unsynced(broker: Broker) -> str:
    """Cut off the end of each segment file that the broker has not synced, as a power failure does at worst.

    Return "" if no sync of the broker was noted: then it is not known what is on the disk, and no file is cut.
    """
    synced = broker.preload.synced_bytes()
    if not synced:
        return ""
    lost: list[int] = []
    for segment in broker.data_dir.glob("*/*.log"):
        found = segment.stat()
        on_disk = min(found.st_size, synced.get(found.st_ino, 0))
        if on_disk < found.st_size:
            os.truncate(segment, on_disk)
            lost.append(found.st_size - on_disk)
    return f"{sum(lost):,} bytes in {len(lost)} of its segment files had not been synced, and are lost"


def _log_folder(broker: Broker, planned: PlannedFault) -> Path:
    topic, _, partition = planned.target.name.rpartition("/")
    return broker.data_dir / f"{topic}-{partition}"


def _share(planned: PlannedFault) -> float:
    return min(1.0, max(0.0, float(planned.parameters["share"])))


def _all_brokers(rng: Random, targets: FaultTargets) -> DrawnFault:
    return DrawnFault(ROLES["all"].draw(rng, targets, ""))


NEMESES: Sequence[Nemesis] = (
    # As after a disk was replaced. The broker replicates all partitions again.
    Nemesis(
        name="empty-disk",
        summary="kill -9 a broker, delete its data, start it on an empty disk; without a role, a partition's leader",
        past_tense="was restarted on an empty disk",
        proves="its files were deleted while it was down, and it had left its role or the ISR",
        needs=frozenset({Ability.KILL, Ability.FILES}),
        occupies=uses_brokers_in_role,
        hold_s=8.0,
        recovery_s=12.0,
        draw=any_leader,
        roles=ONE_BROKER,
        least_brokers=FAILOVER_BROKERS,
        least_replicas=2,
        inject=_damaged_by(lambda broker, planned: empty_disk(broker)),
        by_default=False,
    ),
    # A power failure of one machine: the end of a log that was not synced is gone.
    Nemesis(
        name="truncate-segment",
        summary="kill -9 a broker, cut off the end of a segment file, start it again; without a role, the leader",
        past_tense="was restarted with a truncated log",
        proves="the file was truncated while the broker was down, and it had left its role or the ISR",
        needs=frozenset({Ability.KILL, Ability.FILES}),
        occupies=uses_brokers_in_role,
        hold_s=8.0,
        recovery_s=10.0,
        draw=any_leader,
        parameters={"share": SHARES},
        limits={"share": (0.0, 1.0)},
        roles=REPLICAS,
        least_brokers=FAILOVER_BROKERS,
        least_replicas=2,
        inject=_damaged_by(truncate_segment),
        by_default=False,
    ),
    # After a clean shutdown, Kafka does not check old segments: neither the broker nor its peers notice the bit until
    # someone reads the record from this replica.
    Nemesis(
        name="flip-bit",
        summary="shut down a broker, flip a bit in a segment file, start it again; without a role, the leader",
        past_tense="was restarted with a flipped bit",
        proves="the byte on the disk was changed while the broker was down, and it had left its role or the ISR",
        needs=frozenset({Ability.KILL, Ability.FILES}),
        occupies=uses_brokers_in_role,
        hold_s=8.0,
        recovery_s=10.0,
        draw=any_leader,
        parameters={"share": SHARES},
        limits={"share": (0.0, 1.0)},
        roles=REPLICAS,
        least_brokers=FAILOVER_BROKERS,
        least_replicas=2,
        inject=_damaged_by(flip_bit, shut_down),
        by_default=False,
    ),
    # By default, Kafka calls fsync for records only when it rolls a segment: acknowledged records are safe because they
    # are on several machines. If all replicas lose their power at the same time, acknowledged records are lost
    # (KIP-966). With `--set broker.log.flush.interval.messages=1`, Kafka syncs each batch before it acknowledges it.
    # `lose-unsynced-writes@leader` is a power failure of one broker.
    Nemesis(
        name="lose-unsynced-writes",
        summary="a power failure: kill -9 all brokers, cut off what they had not synced, and start them again",
        past_tense="lost power",
        proves="the signal ended each process, and the files were cut to the sizes that the broker had synced",
        needs=frozenset({Ability.KILL, Ability.FILES, Ability.DISKS}),
        occupies=uses_brokers_in_role,
        hold_s=4.0,
        recovery_s=15.0,
        draw=_all_brokers,
        roles=ROLES,
        least_brokers=FAILOVER_BROKERS,
        inject=_damaged_by(lambda broker, planned: lose_unsynced(broker), needs_other_replica=False),
        by_default=False,
        sources=("KIP-966",),
    ),
)
