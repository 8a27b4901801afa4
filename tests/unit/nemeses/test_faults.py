"""Every fault on a cluster without Kafka: it acts, it did not act, its heal failed."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import TopicSpec
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, LinkTraffic
from harness.network.links import client_link
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.inject import FaultInjector, InjectionState
from harness.runner.nemesis import PlannedFault, Target
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeMeter, FakeNetwork
from harness.witness.request_log import ObservedClientIds
from nemeses import kill_worker, pause_instance, pause_worker
from nemeses.aiming import failover, targets
from nemeses.effects import brokers, cuts, instances
from nemeses.registry import NEMESES
from tests.support.fake_run import FENCED_ZOMBIE, IDLE, WORKS, FakeRun, FakeService, Script, fake_run

AIMED = {
    "kill-broker": PlannedFault("kill-broker", Target("leader", "in/0"), 0.0, 0.05),
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
    "kill-instance": PlannedFault("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05),
    "pause-instance": PlannedFault("pause-instance", Target("worker", "s/s-1"), 0.0, 0.05),
    "cut-txn-coordinator": PlannedFault("cut-txn-coordinator", Target("txn-coordinator", "s-1"), 0.0, 0.05),
    "kill-leader-ahead": PlannedFault("kill-leader-ahead", Target("leader", "in/0"), 0.0, 0.05),
    "lose-answers": PlannedFault("lose-answers", Target("client", "w0-1"), 0.0, 0.05),
    "drop-packets": PlannedFault("drop-packets", Target("leader", "in/0"), 0.0, 0.05),
    "disconnect-broker": PlannedFault("disconnect-broker", Target("leader", "in/0"), 0.0, 0.05),
    "kill-postgres": PlannedFault("kill-postgres", Target("server", "postgres"), 0.0, 0.05),
}
NEVER_GOES_ON = FENCED_ZOMBIE.replace('"committed": 1', '"committed": 0')
OF_BROKERS = ("kill-broker", "pause-broker", "kill-txn-coordinator", "kill-group-coordinator")
ISOLATING = ("drop-packets", "disconnect-broker")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "MOVE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(kill_worker, "STEP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(cuts, "USED_TIMEOUT_S", 0.2)
    monkeypatch.setattr(targets, "NAMED_TIMEOUT_S", 0.1)
    for name in ("STEP_TIMEOUT_S", "TAKE_OVER_TIMEOUT_S", "COME_BACK_TIMEOUT_S"):
        monkeypatch.setattr(pause_worker, name, 0.5)
    monkeypatch.setattr(pause_instance, "COME_BACK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.5)


def carried_out(run: FakeRun, *faults: str) -> InjectionState:
    run.processes.await_ready([run.processes.start_worker("s", "s-1")])
    run.cluster.groups["g"] = [("s-1.0",)] * 3 + [("s-1.1",)]
    run.cluster.observed_ids["w0"] = ObservedClientIds(frozenset({("g", "s-1.0")}))
    run.cluster.next_offsets["g"] = {("in", 0): 10}  # others have committed what a zombie would hold
    with Journal(run.folder / "journals" / "nemesis.jsonl", 0, JournalBegan("nemesis")) as journal:
        carrying = FaultInjector([AIMED[fault] for fault in faults], NEMESES, run.context, journal, 0.0)
        carrying.start()
        for thread in carrying._threads:
            thread.join(30)
        assert carrying.done
    assert carrying.state.active == {}
    return carrying.state


def test_a_server_that_ended_by_itself_is_an_error_of_the_run_and_one_that_does_not_come_back_too(
    tmp_path: Path,
) -> None:
    for n, service in enumerate(
        (FakeService(ending="process 7 ended with status 1"), FakeService(dies=True))
    ):
        (tmp_path / str(n)).mkdir()
        with fake_run(tmp_path / str(n), service=service) as run:
            assert len(carried_out(run, "kill-postgres").errors) == 1


def test_who_reads_a_table_is_a_zombie_once_no_row_that_it_holds_is_left(tmp_path: Path) -> None:
    asked = []

    def backlog(table: str, within: tuple[int, int] | None) -> int | None:
        asked.append((table, within))
        return (None, 2, 0)[len(asked) - 1]

    with fake_run(tmp_path) as run:
        member = run.processes.start_worker("s", "s-1")
        context = replace(run.context, backlog=backlog)
        progress = pause_worker._await_processed(context, member, {"rows/0": (4, 8)})
    assert progress == "others had processed rows/0 from 4 to 7"
    assert asked == [("rows", (4, 8))] * 3


def test_every_fault_is_tested_here() -> None:
    assert AIMED.keys() == NEMESES.keys()


@pytest.mark.parametrize("fault", AIMED)
def test_a_fault_that_acts_says_how_it_is_known(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(FENCED_ZOMBIE if fault == "pause-worker" else WORKS)) as run:
        injected = carried_out(run, fault)
        (report,) = injected.reports
        assert (report.acted, injected.errors, injected.unmet_goals) == (True, [], {})
        assert report.evidence and NEMESES[fault].past_tense in report.struck and report.end_s is not None
        assert all(broker.running for broker in run.cluster.brokers)
        assert run.cluster.network.affected == []
        assert {type(effect) for _, effect in run.cluster.network.imposed} <= NEMESES[fault].needs


@pytest.mark.parametrize("fault", (*OF_BROKERS, *ISOLATING))
def test_a_broker_whose_role_stays_was_not_struck(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(moves=False)) as run:
        (report,) = carried_out(run, fault).reports
        assert not report.acted
        assert "to leave broker 1" in report.evidence


@pytest.mark.parametrize("fault", (*OF_BROKERS, *ISOLATING))
def test_a_broker_that_does_not_come_back_is_an_error_of_the_run(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(heal_fails=True)) as run:
        injected = carried_out(run, fault)
        assert [type(error) for error in injected.errors] == [FaultFailed]
        assert injected.reports[0].end_s is None


def test_a_cluster_that_does_not_recover_is_an_error_of_the_run(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(stays_out_of_sync=True)) as run:
        assert [type(error) for error in carried_out(run, "kill-broker").errors] == [WaitTimeout]


@pytest.mark.parametrize("fault", ("partition", *ISOLATING))
def test_a_cut_that_cannot_be_shown_did_not_act(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(proof=""))) as run:
        (report,) = carried_out(run, fault).reports
        assert not report.acted


@pytest.mark.parametrize("fault", ["partition", "lose-answers", "cut-txn-coordinator"])
def test_a_cut_into_which_nothing_was_sent_says_what_was_awaited(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(proof=""))) as run:
        injected = carried_out(run, fault)
        assert not injected.reports[0].acted and not injected.errors
        told = injected.reports[0].evidence
        assert told == injected.unmet_goals["link-in-use"]
        assert told.startswith(
            "waited 0.2 s for the pipeline to send bytes into the cut; last seen: nothing was sent"
        )


@pytest.mark.parametrize(("idle", "broker"), [((), 1), (("client:w0->1",), 2)])
@pytest.mark.parametrize("measured", [True, False])
def test_a_worker_is_cut_from_a_broker_that_it_talks_to(
    measured: bool, idle: tuple[str, ...], broker: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    network = FakeNetwork(idle=idle, measured=measured)
    with fake_run(tmp_path, cluster=FakeCluster(network=network)) as run:
        (report,) = carried_out(run, "partition").reports
        assert run.cluster.network.imposed == [(client_link("w0", broker), Cut())]
        assert report.struck == f"worker s-1.0 was cut off from broker {broker}"


def test_a_worker_is_cut_from_the_broker_to_which_it_sends_and_not_from_one_that_it_greeted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    sent = {client_link("w0", 1): 60, client_link("w0", 2): 20, client_link("w0", 3): 700}
    with fake_run(tmp_path) as run:
        monkeypatch.setattr(
            FakeMeter, "traffic", lambda meter: {link: LinkTraffic(sent[link], 0) for link in meter.links}
        )
        carried_out(run, "partition")
        assert run.cluster.network.imposed == [(client_link("w0", 3), Cut())]


def test_a_worker_that_starts_is_cut_off_once_it_talks_to_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AIMED, "partition", replace(AIMED["partition"], target=Target("client", "w0-1")))
    looks = [0, 0, 0, 0, 1]
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(measured=False))) as run:
        link = client_link("w0", 2)
        monkeypatch.setattr(
            run.cluster.network,
            "connections",
            lambda links: {one: looks.pop(0) if one == link else 0 for one in links},
        )
        carried_out(run, "partition")
        assert run.cluster.network.imposed == [(link, Cut())] and looks == []


def test_a_cut_that_cannot_be_healed_is_an_error_of_the_run(tmp_path: Path) -> None:
    with fake_run(tmp_path, cluster=FakeCluster(network=FakeNetwork(heal_fails=True))) as run:
        assert [type(error) for error in carried_out(run, "partition").errors] == [FaultFailed]


@pytest.mark.parametrize("fault", ["kill-worker", "pause-worker"])
def test_a_worker_that_comes_to_no_step_was_not_struck(fault: str, tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(IDLE)) as run:
        injected = carried_out(run, fault)
        assert not injected.reports[0].acted
        assert injected.unmet_goals and not injected.errors


def test_a_zombie_that_dies_on_coming_back_proves_nothing(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(WORKS)) as run:  # it ends when it is told that it was replaced
        injected = carried_out(run, "pause-worker")
        assert not injected.reports[0].acted
        assert "did not go on with its transaction" in injected.unmet_goals["zombie"]


def test_what_a_zombie_had_committed_itself_is_no_proof_that_others_went_on(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(FENCED_ZOMBIE)) as run:
        run.cluster.offsets["g"] = {("in", 0): 10}
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert not effect.acted
        assert "no other worker went on in its place" in effect.unmet_goals["zombie"]


def test_a_zombie_in_whose_place_nobody_goes_on_is_none(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(FENCED_ZOMBIE)) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert not effect.acted
        assert "no other worker went on in its place" in effect.unmet_goals["zombie"]


@pytest.mark.parametrize(("script", "acted"), [(FENCED_ZOMBIE, True), (NEVER_GOES_ON, False)])
def test_where_no_group_tells_who_has_what_the_one_in_its_place_must_commit(
    script: str, acted: bool, tmp_path: Path
) -> None:
    with fake_run(tmp_path, Script(script)) as run:
        worker = run.processes.start_worker("s", "s-1")
        assert worker.task is not None
        worker.task = replace(worker.task, group=None)
        run.processes.await_ready([worker])
        with NEMESES["pause-worker"].inject(run.context, AIMED["pause-worker"]) as effect:
            pass
        assert effect.acted is acted
        assert acted or "no other worker went on in its place" in effect.unmet_goals["zombie"]


def test_a_fault_starts_when_it_strikes_and_not_while_it_waits(tmp_path: Path) -> None:
    late = WORKS.replace('report(step=command["arm"]', 'time.sleep(0.4); report(step=command["arm"]')
    with fake_run(tmp_path, Script(late)) as run:
        (report,) = carried_out(run, "kill-worker").reports
        asked_s = next(json.loads(line)["time"] / 1e9 for line in nemesis_lines(run) if '"invoke"' in line)
        assert report.acted and report.start_s >= asked_s + 0.35
        assert report.end_s is not None and report.start_s < report.end_s


def test_a_broker_is_struck_while_a_worker_stands_at_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = replace(AIMED["kill-txn-coordinator"], parameters={"step": "after-offsets"})
    monkeypatch.setitem(AIMED, "kill-txn-coordinator", at)
    with fake_run(tmp_path) as run:
        (report,) = carried_out(run, "kill-txn-coordinator").reports
        assert report.acted and "s-1.0 waited at after-offsets" in report.evidence


def test_a_broker_for_which_no_worker_comes_to_the_step_is_not_struck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "STEP_TIMEOUT_S", 0.5)
    at = replace(AIMED["kill-group-coordinator"], parameters={"step": "after-offsets"})
    monkeypatch.setitem(AIMED, "kill-group-coordinator", at)
    with fake_run(tmp_path, Script(IDLE)) as run:
        injected = carried_out(run, "kill-group-coordinator")
        assert not injected.reports[0].acted and not injected.errors
        assert "s-1.0 to come to after-offsets" in injected.unmet_goals["worker-at-step"]
        assert all(broker.running for broker in run.cluster.brokers)


def nemesis_lines(run: FakeRun) -> list[str]:
    return (run.folder / "journals" / "nemesis.jsonl").read_text().splitlines()


def test_faults_of_brokers_and_of_workers_go_on_side_by_side(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        injected = carried_out(run, "kill-broker", "kill-worker", "partition")
        assert {report.fault for report in injected.reports} == {"kill-broker", "kill-worker", "partition"}
        assert all(report.acted for report in injected.reports)
        assert WorkerStep.AFTER_SEND.value in next(
            r.target for r in injected.reports if r.fault == "kill-worker"
        )


@pytest.mark.parametrize(("coordinator", "killed"), [(1, 2), (3, 1)])
def test_a_leader_that_takes_no_commit_of_its_writers_is_not_cut_off(
    coordinator: int, killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its followers are needed for the commit, and who waits for that one writes nothing."""
    target = Target("leader", "out/0")
    monkeypatch.setitem(AIMED, "kill-leader-ahead", replace(AIMED["kill-leader-ahead"], target=target))
    cluster = FakeCluster()
    cluster.create_topics([TopicSpec("out", 2)], 1.0)
    cluster._leader |= {"group g": coordinator, "out/0": 1, "out/1": 2}
    with fake_run(tmp_path, cluster=cluster) as run:
        (report,) = carried_out(run, "kill-leader-ahead").reports
        assert (report.acted, report.target) == (
            True,
            f"broker {killed}, leader of out/{int(killed != 1)}",
        )


def test_who_gives_up_while_a_fault_is_on_hears_nothing_more_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unheard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unheard.append)
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
            carrying = FaultInjector(planned_faults, NEMESES, run.context, journal, time.monotonic())
            carrying.start()
            wait_for(lambda: bool(carrying.state.active), "the fault to be on", 10.0)
            raise KeyboardInterrupt
        with (tmp_path / "another").open("x") as another:  # it may get the number that the journal had
            carrying.stop()
            assert carrying.done and not unheard
            assert [str(error) for error in carrying.state.errors] == [
                "journal nemesis is closed, because its process is ending"
            ]
            another.flush()
        assert (tmp_path / "another").read_bytes() == b""
