"""Every fault on a cluster without Kafka: it acts, it does not act, or its heal fails."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, LinkTraffic, client_link
from harness.protocol.observed_clients import ObservedClients
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.inject import FaultInjector, InjectionState
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster, FakePreload, fault_context
from harness.testing.fake_network import FakeMeter, FakeNetwork
from nemeses.effects.worker_member import WorkerMember
from nemeses.registry import NEMESES
from tests.support.broker_data import make_data, write_partition
from tests.support.fake_run import (
    ABORTED_ZOMBIE,
    FENCED_ZOMBIE,
    IDLE,
    WORKS,
    FakeRun,
    FakeService,
    Script,
    fake_run,
)

pytestmark = pytest.mark.processes

AIMED = {
    "kill-broker": PlannedFault("kill-broker", Target("leader", "in/0"), 0.0, 0.05),
    "restart-broker": PlannedFault("restart-broker", Target("leader", "in/0"), 0.0, 0.05),
    "pause-broker": PlannedFault("pause-broker", Target("leader", "in/0"), 0.0, 0.05),
    "kill-txn-coordinator": PlannedFault("kill-txn-coordinator", Target("txn-coordinator", "s-1"), 0.0, 0.05),
    "kill-group-coordinator": PlannedFault(
        "kill-group-coordinator", Target("group-coordinator", "g"), 0.0, 0.05
    ),
    "partition": PlannedFault("partition", Target("isolate", "1"), 0.0, 0.05),
    "kill-worker": PlannedFault("kill-worker", Target("worker", "s/s-1"), 0.0, 0.05, {"step": "after-send"}),
    "pause-worker": PlannedFault(
        "pause-worker", Target("worker", "s/s-1"), 0.0, 0.05, {"step": "after-send"}
    ),
    "pause-worker-unreplaced": PlannedFault(
        "pause-worker-unreplaced", Target("worker", "s/s-1"), 0.0, 0.05, {"step": "after-send"}
    ),
    "kill-instance": PlannedFault("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05),
    "pause-instance": PlannedFault("pause-instance", Target("worker", "s/s-1"), 0.0, 0.05),
    "pause-instance-unreplaced": PlannedFault(
        "pause-instance-unreplaced", Target("worker", "s/s-1"), 0.0, 0.05
    ),
    "restart-instance": PlannedFault("restart-instance", Target("worker", "s/s-1"), 0.0, 0.05),
    "scale-instances": PlannedFault(
        "scale-instances", Target("worker", "s/s-1"), 0.0, 0.05, {"role": "down"}
    ),
    "cut-txn-coordinator": PlannedFault("cut-txn-coordinator", Target("txn-coordinator", "s-1"), 0.0, 0.05),
    "kill-leader-ahead": PlannedFault("kill-leader-ahead", Target("leader", "in/0"), 0.0, 0.05),
    "lose-answers": PlannedFault("lose-answers", Target("client", "w0-1"), 0.0, 0.05),
    "drop-packets": PlannedFault("drop-packets", Target("leader", "in/0"), 0.0, 0.05),
    "disconnect-broker": PlannedFault("disconnect-broker", Target("leader", "in/0"), 0.0, 0.05),
    "kill-postgres": PlannedFault("kill-postgres", Target("server", "postgres"), 0.0, 0.05),
    "one-way": PlannedFault("one-way", Target("pair", "1-2"), 0.0, 0.05, {"loses": "sent"}),
    "reset-connections": PlannedFault("reset-connections", Target("isolate", "1"), 0.0, 0.05),
    "refuse-connections": PlannedFault("refuse-connections", Target("client", "w0-1"), 0.0, 0.05),
    "half-open": PlannedFault("half-open", Target("pair", "1-2"), 0.0, 0.05),
    "slow-network": PlannedFault(
        "slow-network", Target("isolate", "1"), 0.0, 0.05, {"latency_ms": 90, "jitter_ms": 9}
    ),
    "limit-bandwidth": PlannedFault(
        "limit-bandwidth", Target("bridge", "3-1-2"), 0.0, 0.05, {"kb_per_s": 70}
    ),
    "slice-packets": PlannedFault("slice-packets", Target("minority", "2"), 0.0, 0.05, {"slice_bytes": 50}),
    "move-leader": PlannedFault("move-leader", Target("leader", "in/0"), 0.0, 0.05),
    "reassign-partitions": PlannedFault("reassign-partitions", Target("topic", "in"), 0.0, 0.05),
    "rolling-restart": PlannedFault("rolling-restart", Target("all", "2,3,1"), 0.0, 0.05),
    "rolling-upgrade": PlannedFault("rolling-upgrade", Target("versions", "4.3.1,4.4.0"), 0.0, 0.05),
    "change-transaction-version": PlannedFault(
        "change-transaction-version", Target("feature", "transaction.version=1"), 0.0, 0.05
    ),
    "roll-segments": PlannedFault("roll-segments", Target("topic", "in"), 0.0, 0.05),
    "add-partitions": PlannedFault("add-partitions", Target("topic", "in"), 0.0, 0.05, {"more": 2}),
    "jump-broker-clock": PlannedFault(
        "jump-broker-clock", Target("leader", "in/0"), 0.0, 0.05, {"ahead_s": -3600.0}
    ),
    "drift-broker-clock": PlannedFault(
        "drift-broker-clock", Target("leader", "in/0"), 0.0, 0.05, {"rate": 1.1}
    ),
    "jump-worker-clock": PlannedFault(
        "jump-worker-clock", Target("worker", "s/s-1"), 0.0, 0.05, {"ahead_s": 3600.0}
    ),
    "jump-instance-clock": PlannedFault(
        "jump-instance-clock", Target("worker", "s/s-1"), 0.0, 0.05, {"ahead_s": 3600.0}
    ),
    "stop-broker-clock": PlannedFault("stop-broker-clock", Target("leader", "in/0"), 0.0, 0.05),
    "fill-disk": PlannedFault("fill-disk", Target("leader", "in/0"), 0.0, 0.05),
    "slow-fsync": PlannedFault("slow-fsync", Target("leader", "in/0"), 0.0, 0.05, {"delay_s": 0.5}),
    "fail-fsync": PlannedFault("fail-fsync", Target("leader", "in/0"), 0.0, 0.05),
    "empty-disk": PlannedFault("empty-disk", Target("leader", "in/0"), 0.0, 0.05),
    "truncate-segment": PlannedFault("truncate-segment", Target("leader", "in/0"), 0.0, 0.05, {"share": 0.5}),
    "lose-unsynced-writes": PlannedFault("lose-unsynced-writes", Target("all", "1,2,3"), 0.0, 0.05),
    "flip-bit": PlannedFault("flip-bit", Target("leader", "in/0"), 0.0, 0.05, {"share": 0.5}),
}
NEVER_COMMITS = FENCED_ZOMBIE.replace('"committed": 1', '"committed": 0')
BROKER_FAULTS = (
    "kill-broker",
    "restart-broker",
    "fill-disk",
    "fail-fsync",
    "empty-disk",
    "truncate-segment",
    "flip-bit",
    "pause-broker",
    "kill-txn-coordinator",
    "kill-group-coordinator",
)
ISOLATING = ("drop-packets", "disconnect-broker")


def inject(run: FakeRun, *faults: str) -> InjectionState:
    """Inject and heal these faults on a run with one worker."""
    worker = run.processes.start_worker("s", "s-1")
    for broker in run.cluster.brokers:
        broker.data_dir = make_data(run.folder / "brokers" / str(broker.id))
        write_partition(broker.data_dir, "out", timestamp_ms=int(1000 * (time.time() + 3600)))
    worker.preload = FakePreload()
    run.processes.await_ready([worker])
    run.cluster.groups["g"] = [("s-1.0",)] * 3 + [("s-1.1",)] * 2 + [("s-1.1", "s-1.2")]
    run.cluster.network.clients["w0"] = ObservedClients(members={"g": ("s-1.0",)})
    run.cluster.next_offsets["g"] = {("in", 0): 10}  # others have committed the inputs of a zombie
    with Journal(run.folder / "journals" / "nemesis.jsonl", 0, JournalBegan("nemesis")) as journal:
        injector = FaultInjector([AIMED[fault] for fault in faults], NEMESES, run.context, journal)
        injector.start(0.0)
        wait_for(lambda: injector.finished, "the end of the faults", 30)
    assert injector.state.active == {}
    return injector.state


@pytest.mark.parametrize("marked", [True, False])
def test_a_fault_ends_when_it_is_healed_and_not_when_its_evidence_is_complete(
    marked: bool, tmp_path: Path
) -> None:
    seen = threading.Event()

    @contextmanager
    def pause(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
        injected = InjectedFault("worker s-1.0", acted=True)
        yield injected
        if marked:
            injected.mark_healed()
        seen.wait(0.2)  # for evidence of what the worker does after it was resumed

    nemeses = {"kill-broker": replace(NEMESES["kill-broker"], inject=pause)}
    fault = replace(AIMED["kill-broker"], hold_s=0.0)
    with fake_run(tmp_path) as run:
        path = run.folder / "journals" / "nemesis.jsonl"
        with Journal(path, time.monotonic_ns(), JournalBegan("nemesis")) as journal:
            injector = FaultInjector([fault], nemeses, run.context, journal)
            injector.start(0.0)
            injector.stop()
    (report,) = injector.state.reports
    assert report.end_s is not None and (report.end_s - report.start_s < 0.15) is marked


def test_a_server_that_the_fault_cannot_kill_or_restart_is_an_error_of_the_run(tmp_path: Path) -> None:
    for n, service in enumerate(
        (FakeService(ending="process 7 ended with status 1"), FakeService(fails_to_start=True))
    ):
        (tmp_path / str(n)).mkdir()
        with fake_run(tmp_path / str(n), service=service) as run:
            assert len(inject(run, "kill-postgres").errors) == 1


def test_a_reader_of_a_table_is_a_zombie_once_others_have_processed_its_rows(tmp_path: Path) -> None:
    calls = []

    def backlog(table: str, within: tuple[int, int] | None) -> int | None:
        calls.append((table, within))
        return (None, 2, 0)[len(calls) - 1]

    with fake_run(tmp_path) as run:
        member = run.processes.start_worker("s", "s-1")
        assert member.worker_spec is not None
        member.worker_spec = structs.replace(member.worker_spec, group=None)
        reads_rows = replace(run.pipeline.stages[0], positions="each")
        context = replace(run.context, backlog=backlog, stages=(reads_rows,))
        worker = WorkerMember(context, AIMED["pause-worker"], member)
        worker.claims = worker.uncommitted = {"rows/0": (4, 8)}
        progress = worker.await_processed(lambda: None)
    assert progress == "others had processed rows/0 from 4 to 7"
    assert calls == [("rows", (4, 8))] * 3


def test_the_waits_of_a_fault_are_scaled() -> None:
    context = fault_context(FakeCluster(), time_scale=0.001)
    calls: list[float] = []

    def probe() -> None:
        calls.append(time.monotonic())

    with pytest.raises(WaitTimeout, match=r"waited 0\.1 s for a leader"):
        context.wait_for(probe, "a leader", 100.0, every_s=1.0)
    assert len(calls) > 5 and calls[-1] - calls[0] >= 0.1


def test_every_fault_is_tested_here() -> None:
    rules = {name for name, nemesis in NEMESES.items() if nemesis.links}  # see test_protocol_faults.py
    assert AIMED.keys() == NEMESES.keys() - rules


@pytest.mark.parametrize("fault", AIMED)
def test_a_fault_that_acts_reports_its_proof(fault: str, tmp_path: Path) -> None:
    scripts = {"pause-worker": FENCED_ZOMBIE, "pause-worker-unreplaced": ABORTED_ZOMBIE}
    with fake_run(tmp_path, Script(scripts.get(fault, WORKS))) as run:
        injected = inject(run, fault)
        (report,) = injected.reports
        assert (report.acted, injected.errors, injected.unmet_goals) == (True, [], {})
        assert report.evidence and NEMESES[fault].past_tense in report.struck and report.end_s is not None
        assert all(broker.running for broker in run.cluster.brokers)
        assert run.cluster.network.affected == []
        assert {type(effect) for _, effect in run.cluster.network.imposed} <= NEMESES[fault].needs


@pytest.mark.parametrize("fault", (*BROKER_FAULTS, *ISOLATING))
def test_a_fault_did_not_act_if_the_broker_keeps_its_role(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(moves=False)) as run:
        (report,) = inject(run, fault).reports
        assert not report.acted
        assert "to leave broker 1" in report.evidence


@pytest.mark.parametrize("fault", (*BROKER_FAULTS, *ISOLATING))
def test_a_broker_that_does_not_come_back_is_an_error_of_the_run(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(heal_fails=True)) as run:
        injected = inject(run, fault)
        assert [type(error) for error in injected.errors] == [FaultFailed]
        assert injected.reports[0].end_s is None


def test_a_cluster_that_does_not_recover_is_an_error_of_the_run(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(stays_out_of_sync=True)) as run:
        assert [type(error) for error in inject(run, "kill-broker").errors] == [WaitTimeout]


@pytest.mark.parametrize("fault", ("partition", *ISOLATING))
def test_a_cut_without_proof_did_not_act(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(proof=""))) as run:
        (report,) = inject(run, fault).reports
        assert not report.acted


@pytest.mark.parametrize("fault", ["partition", "lose-answers", "cut-txn-coordinator"])
def test_a_cut_into_which_nothing_was_sent_names_the_missing_proof(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(proof=""))) as run:
        injected = inject(run, fault)
        assert not injected.reports[0].acted and not injected.errors
        evidence = injected.reports[0].evidence
        assert evidence == injected.unmet_goals["link-in-use"]
        assert evidence.startswith(
            "waited 0.1 s for the pipeline to meet the effect on the links; last seen: nothing was sent"
        )


@pytest.mark.parametrize(("idle", "broker"), [((), 1), (("client:w0->1",), 2)])
@pytest.mark.parametrize("measured", [True, False])
def test_a_worker_is_cut_from_a_broker_that_it_uses(
    measured: bool, idle: tuple[str, ...], broker: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    network = FakeNetwork(idle=idle, measured=measured)
    with fake_run(tmp_path, cluster=FakeCluster(network=network)) as run:
        (report,) = inject(run, "partition").reports
        assert run.cluster.network.imposed == [(client_link("w0", broker), Cut())]
        assert report.struck == f"worker s-1.0 was cut off from broker {broker}"


def test_a_worker_is_not_cut_from_a_broker_to_which_it_only_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    sent = {client_link("w0", 1): 60, client_link("w0", 2): 20, client_link("w0", 3): 700}
    with fake_run(tmp_path) as run:
        monkeypatch.setattr(
            FakeMeter, "traffic", lambda meter: {link: LinkTraffic(sent[link], 0) for link in meter.links}
        )
        inject(run, "partition")
        assert run.cluster.network.imposed == [(client_link("w0", 3), Cut())]


def test_a_starting_worker_is_cut_off_once_it_connects_to_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    looks = [*[0] * 25, 1]  # more looks than the wait for the drawn broker can make
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(measured=False))) as run:
        link = client_link("w0", 2)
        monkeypatch.setattr(
            run.cluster.network,
            "connections",
            lambda links: {other: looks.pop(0) if other == link else 0 for other in links},
        )
        inject(run, "partition")
        assert run.cluster.network.imposed == [(link, Cut())] and looks == []


def test_a_cut_that_cannot_be_healed_is_an_error_of_the_run(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(heal_fails=True))) as run:
        assert [type(error) for error in inject(run, "partition").errors] == [FaultFailed]


@pytest.mark.parametrize("fault", ["kill-worker", "pause-worker"])
def test_a_fault_did_not_act_if_the_worker_reaches_no_step(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE)) as run:
        injected = inject(run, fault)
        assert not injected.reports[0].acted
        assert injected.unmet_goals and not injected.errors


def test_a_zombie_that_ends_when_it_is_resumed_proves_nothing(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(WORKS)) as run:  # it ends when it learns that it was replaced
        injected = inject(run, "pause-worker")
        assert not injected.reports[0].acted
        assert "did not continue its transaction" in injected.unmet_goals["zombie"]


def test_a_commit_of_the_zombie_itself_is_no_proof(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(FENCED_ZOMBIE)) as run:
        run.cluster.offsets["g"] = {("in", 0): 10}
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert not effect.acted
        assert "no other worker committed its inputs" in effect.unmet_goals["zombie"]


def test_a_paused_worker_is_no_zombie_if_no_other_worker_commits(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(FENCED_ZOMBIE)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert not effect.acted
        assert "no other worker committed its inputs" in effect.unmet_goals["zombie"]


@pytest.mark.parametrize(("script", "acted"), [(FENCED_ZOMBIE, True), (NEVER_COMMITS, False)])
def test_in_a_stage_without_a_group_the_replacement_must_commit(
    script: str, acted: bool, tmp_path: Path
) -> None:
    with fake_run(tmp_path, Script(script)) as run:
        worker = run.processes.start_worker("s", "s-1")
        assert worker.worker_spec is not None
        worker.worker_spec = structs.replace(worker.worker_spec, group=None)
        run.processes.await_ready([worker])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert effect.acted is acted
        assert acted or "no other worker committed its inputs" in effect.unmet_goals["zombie"]


def test_a_fault_starts_when_it_is_injected_and_not_while_it_waits(tmp_path: Path) -> None:
    late = WORKS.replace('report(step=command["arm"]', 'time.sleep(0.2); report(step=command["arm"]')
    with fake_run(tmp_path, Script(late)) as run:
        (report,) = inject(run, "kill-worker").reports
        invoked_s = next(json.loads(line)["time"] / 1e9 for line in nemesis_lines(run) if '"invoke"' in line)
        assert report.acted and report.start_s >= invoked_s + 0.15
        assert report.end_s is not None and report.start_s < report.end_s


def test_a_broker_is_killed_while_a_worker_is_at_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = replace(AIMED["kill-txn-coordinator"], parameters={"step": "after-offsets"})
    monkeypatch.setitem(AIMED, "kill-txn-coordinator", planned)
    with fake_run(tmp_path) as run:
        (report,) = inject(run, "kill-txn-coordinator").reports
        assert report.acted and "s-1.0 waited at after-offsets" in report.evidence


def test_a_broker_is_not_killed_if_no_worker_reaches_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = replace(AIMED["kill-group-coordinator"], parameters={"step": "after-offsets"})
    monkeypatch.setitem(AIMED, "kill-group-coordinator", planned)
    with fake_run(tmp_path, Script(IDLE)) as run:
        injected = inject(run, "kill-group-coordinator")
        assert not injected.reports[0].acted and not injected.errors
        assert "s-1.0 to come to after-offsets" in injected.unmet_goals["worker-at-step"]
        assert all(broker.running for broker in run.cluster.brokers)


def nemesis_lines(run: FakeRun) -> list[str]:
    return (run.folder / "journals" / "nemesis.jsonl").read_text().splitlines()


def test_faults_of_brokers_and_workers_run_at_the_same_time(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        injected = inject(run, "kill-broker", "kill-worker", "partition")
        assert {report.fault for report in injected.reports} == {"kill-broker", "kill-worker", "partition"}
        assert all(report.acted for report in injected.reports)
        assert WorkerStep.AFTER_SEND.value in next(
            report.target for report in injected.reports if report.fault == "kill-worker"
        )


@pytest.mark.parametrize(("coordinator", "killed"), [(1, 2), (3, 1)])
def test_the_coordinator_of_the_writers_group_is_not_cut_off(
    coordinator: int, killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator needs its followers to commit offsets, and workers that wait for the commit write nothing."""
    target = Target("leader", "out/0")
    monkeypatch.setitem(AIMED, "kill-leader-ahead", replace(AIMED["kill-leader-ahead"], target=target))
    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("out", 2)], 1.0)
    cluster._leader |= {"group g": coordinator, "out/0": 1, "out/1": 2}
    with fake_run(tmp_path, cluster=cluster) as run:
        (report,) = inject(run, "kill-leader-ahead").reports
        assert (report.acted, report.target) == (
            True,
            f"broker {killed}, leader of out/{int(killed != 1)}",
        )


def test_a_fault_that_ends_after_the_journal_is_closed_raises_in_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncaught: list[object] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    with fake_run(tmp_path) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        planned_faults = [
            replace(AIMED["kill-broker"], hold_s=30.0),
            replace(AIMED["kill-broker"], start_s=31.0),
        ]
        with (
            pytest.raises(KeyboardInterrupt),
            Journal(run.folder / "journals" / "nemesis.jsonl", 0, JournalBegan("nemesis")) as journal,
        ):
            injector = FaultInjector(planned_faults, NEMESES, run.context, journal)
            injector.start(time.monotonic())
            wait_for(lambda: bool(injector.state.active), "the fault to be on", 10.0)
            raise KeyboardInterrupt
        with (tmp_path / "another").open("x") as another:  # it may get the number that the journal had
            injector.stop()
            assert injector.finished and not uncaught
            assert [str(error) for error in injector.state.errors] == [
                "journal nemesis is closed, because its process is ending"
            ]
            another.flush()
        assert (tmp_path / "another").read_bytes() == b""
