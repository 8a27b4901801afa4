"""Damage the files of a stopped broker. Each function returns its proof: what the files were before, and are now."""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from harness.cluster import Broker
from harness.cluster.storage import format_node
from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault, TargetMissing
from harness.witness.segments import HEADER, ReplicaDamage, read_log, segment_files
from nemeses.aiming.roles import ROLES
from nemeses.effects.brokers import inject_on_role, start

META_PROPERTIES = "meta.properties"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The values of the parameter `share`."""
REPLICAS = {role: ROLES[role] for role in ("leader", "follower")}
"""The roles of a broker whose replica of one partition is damaged."""


def damage_stopped(
    context: FaultContext,
    planned: PlannedFault,
    stop: Callable[[Broker], str],
    damage: Callable[[Broker], str],
    *,
    needs_other_replica: bool = True,
) -> AbstractContextManager[InjectedFault]:
    """Stop the brokers that have a role, damage their files, and start them again.

    `stop` and `damage` return their proofs. The fault acted if the files of each broker changed, and another broker
    took over the role. With `needs_other_replica`, `TargetMissing` is raised if a broker has the only replica in sync
    of a partition: then the damage would destroy acknowledged records.
    """

    def stop_and_damage(broker: Broker) -> str:
        if needs_other_replica:
            _require_other_replica(context, broker)
        ending, damaged = stop(broker), damage(broker)
        return f"{ending}; {damaged}" if damaged else ""

    return inject_on_role(context, planned, stop_and_damage, start)


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
