"""Faults that change disks and files: what they leave on the disk, and when they did not act."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import PartitionView
from harness.common.errors import FaultFailed
from harness.model.pipeline import TopicSpec
from harness.runner.nemesis import PlannedFault, Target, TargetMissing
from harness.testing.fake_cluster import FakeBroker, FakeCluster, FakePreload, fault_context
from harness.witness.segments import ReplicaDamage, read_log
from nemeses.broker_files import META_PROPERTIES, empty_disk, flip_bit, lose_unsynced, truncate_segment
from nemeses.registry import NEMESES
from tests.support.broker_data import BATCHES, make_data


def broker_with(folder: Path) -> FakeBroker:
    broker = FakeCluster().brokers[0]
    broker.data_dir = make_data(folder)
    return broker


def damage(fault: str, share: float = 0.5) -> PlannedFault:
    return PlannedFault(fault, Target("leader", "in/0"), 0.0, 0.05, {"share": share})


def intact(folder: Path) -> list[bool]:
    return [batch.intact() for batch in read_log(folder, ReplicaDamage())]


@pytest.mark.parametrize(("share", "damaged"), [(0.0, 0), (0.3, 1), (0.5, 2), (-1.0, 0)])
def test_one_bit_of_the_chosen_batch_is_flipped(share: float, damaged: int, tmp_path: Path) -> None:
    broker = broker_with(tmp_path)
    segment = tmp_path / "in-0" / f"{0:020}.log"
    before = segment.read_bytes()
    proof = flip_bit(broker, damage("flip-bit", share))
    changed = [a ^ b for a, b in zip(before, segment.read_bytes(), strict=True) if a != b]
    assert changed == [1] and f"in the batch at offset {damaged}" in proof
    assert intact(tmp_path / "in-0") == [number != damaged for number in range(BATCHES)]


def test_a_flipped_bit_in_the_last_batch_ends_the_log_before_it(tmp_path: Path) -> None:
    broker = broker_with(tmp_path)
    flip_bit(broker, damage("flip-bit", 1.0))
    assert len(intact(tmp_path / "in-0")) == BATCHES - 1


@pytest.mark.parametrize("change", [flip_bit, truncate_segment])
def test_a_log_without_records_is_no_target(change, tmp_path: Path) -> None:
    broker = broker_with(tmp_path)
    (tmp_path / "in-0" / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(TargetMissing, match="broker 1 has no record of in/0 yet"):
        change(broker, damage("flip-bit"))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_end_of_the_last_segment_is_cut_off(share: float, tmp_path: Path) -> None:
    broker = broker_with(tmp_path)
    size = (tmp_path / "in-0" / f"{0:020}.log").stat().st_size
    proof = truncate_segment(broker, damage("truncate-segment", share))
    left = (tmp_path / "in-0" / f"{0:020}.log").stat().st_size
    assert left == size - max(1, round(share * size))
    assert proof == f"in-0/{0:020}.log had {size} bytes and has {left}"


def test_an_emptied_disk_is_formatted_for_the_same_cluster(tmp_path: Path) -> None:
    broker = broker_with(tmp_path)
    before = (tmp_path / META_PROPERTIES).read_text().splitlines()
    proof = empty_disk(broker)
    after = (tmp_path / META_PROPERTIES).read_text().splitlines()
    assert [file.name for file in tmp_path.iterdir()] == [META_PROPERTIES]
    assert [line for line in before if line not in after] == [before[-1]]
    assert before[-1].startswith("directory.id=") and proof.startswith("its 2 files with 0 kB were deleted")


def test_what_a_broker_had_not_synced_is_lost(tmp_path: Path) -> None:
    class Synced(FakePreload):
        def synced_bytes(self) -> dict[int, int]:
            return {segment.stat().st_ino: 150, 0: 10}

    broker = broker_with(tmp_path)
    segment = tmp_path / "in-0" / f"{0:020}.log"
    size = segment.stat().st_size
    broker.preload = Synced()
    proof = f"{size - 150} bytes in 1 of its segment files had not been synced, and are lost"
    assert lose_unsynced(broker) == proof
    assert segment.stat().st_size == 150
    assert lose_unsynced(broker).startswith("0 bytes in 0 of its segment files")
    broker.preload = FakePreload()  # it synced another file
    assert lose_unsynced(broker).startswith("150 bytes in 1") and segment.stat().st_size == 0


def test_a_power_failure_without_known_syncs_cuts_nothing_and_did_not_act(tmp_path: Path) -> None:
    class NotLoaded(FakePreload):
        def synced_bytes(self) -> dict[int, int]:
            return {}

    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    for broker in cluster.brokers:
        broker.data_dir = make_data(tmp_path / str(broker.id))
    cluster.brokers[1].preload = NotLoaded()
    planned = PlannedFault("lose-unsynced-writes", Target("broker", "1,2,3"), 0.0, 0.05)
    with NEMESES["lose-unsynced-writes"].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        pass
    sizes = [
        (tmp_path / str(broker.id) / "in-0" / f"{0:020}.log").stat().st_size for broker in cluster.brokers
    ]
    assert [size > 0 for size in sizes] == [False, True, False]
    assert not effect.acted
    assert effect.unmet_goals == {"broker-stopped": "nothing proves that broker 2 was affected"}


@pytest.mark.parametrize("fault", ["empty-disk", "truncate-segment", "flip-bit"])
def test_the_only_replica_in_sync_is_not_destroyed(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    cluster.brokers[0].data_dir = make_data(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    views = {0: PartitionView(1, (1, 2, 3), (1,), "in")}
    monkeypatch.setattr(FakeCluster, "describe", lambda cluster, topic: views if topic == "in" else {})
    planned = PlannedFault(fault, Target("leader", "in/0"), 0.0, 0.05, {"share": 0.5})
    context = replace(fault_context(cluster, time_scale=0.001), topics=("in",))
    with (
        pytest.raises(TargetMissing, match="broker 1 has the only replica of in/0 in sync"),
        NEMESES[fault].inject(context, planned),
    ):
        pass
    assert cluster.brokers[0].running
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("fault", ["fill-disk", "fail-fsync"])
def test_a_broker_that_goes_on_although_its_disk_fails_is_an_error_of_the_run(fault: str) -> None:
    class NeverFails(FakePreload):
        def fail_writes(self, failing: bool) -> None:
            pass

        fail_syncs = fail_writes

    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    cluster.brokers[0].preload = NeverFails()
    planned = PlannedFault(fault, Target("leader", "in/0"), 0.0, 0.05)
    with (
        pytest.raises(FaultFailed, match="broker 1 went on although its disk failed"),
        NEMESES[fault].inject(fault_context(cluster, time_scale=0.001), planned),
    ):
        pass


@pytest.mark.parametrize(("calls", "each_s"), [(0, 0.0), (3, 0.0), (3, 0.5)])
def test_slow_fsync_acts_if_the_calls_of_the_broker_take_longer(calls: int, each_s: float) -> None:
    class Counts(FakePreload):
        def delay_syncs(self, delay_s: float) -> None:
            assert delay_s in (0.5, 0.0)
            if delay_s:
                self.delayed = (calls, calls * each_s)

    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("in", 1)], 1.0)
    cluster.brokers[0].preload = Counts()
    planned = PlannedFault("slow-fsync", Target("leader", "in/0"), 0.0, 0.05, {"delay_s": 0.5})
    with NEMESES["slow-fsync"].inject(fault_context(cluster, time_scale=0.001), planned) as effect:
        pass
    assert effect.acted is bool(each_s)
    if each_s:
        assert effect.proof[0] == "broker 1 called fsync 3 times, each 0.50 s slower"
    else:
        assert "broker 1 to call fsync 0.5 s slower" in effect.unmet_goals["broker-1"]
