"""Whole runs on a cluster without Kafka: the order of the phases, what ends a run, and that all faults are healed."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harness.common.errors import EnvironmentFailure, FaultFailed, StartFailed, UsageError
from harness.model.vocabulary import Role
from harness.processes.spawn import Supervisor
from harness.processes.specs import CommandLine, ProcessSpec, ProgramRules
from harness.protocol.observed_clients import ObservedClients
from harness.results.run_metadata import ProgramClient
from harness.runner.final_state import DrainTimeouts, FinalState
from harness.runner.interrupt import Interrupt
from harness.runner.nemesis import FaultContext, PlannedFault, Target
from harness.runner.processes import RunClock
from harness.runner.run import EarlyStart, RunPlan, RunResources, perform, program_clients
from harness.runner.run_log import RunLog
from harness.runner.run_process import RunProcess
from harness.settings.options import Options
from harness.testing.fake_cluster import FakeCluster
from harness.testing.fake_network import FakeNetwork
from nemeses.registry import NEMESES
from tests.support.fake_run import (
    EXITS_AT_START,
    EXITS_WHEN_READY,
    PIPELINE,
    WORKS,
    FakeEndMarkers,
    RecordedProgress,
    Script,
)

pytestmark = pytest.mark.processes

SOON = DrainTimeouts(in_sync_s=0.2, drain_s=0.4, clean_up_s=0.2, reads_s=3.0, every_s=0.01)
KILL = PlannedFault("kill-broker", Target("leader", "in/0"), 0.1, 0.05)
SINCE_START = PlannedFault(
    "rule", Target("rule", "drop"), 0.0, 0.8, {"api": "InitProducerId", "action": "drop", "since": "start"}
)
CUT = PlannedFault("partition", Target("isolate", "1"), 0.4, 0.05)


@dataclass
class FakeWholeRun:
    """A run on a fake cluster, with its log and its progress."""

    folder: Path
    cluster: FakeCluster = field(default_factory=FakeCluster)
    program: Script = field(default_factory=Script)
    faults: tuple[PlannedFault, ...] = ()
    limit_s: float = 1.0
    lead_s: float = 0.5
    interrupt: Interrupt = field(default_factory=Interrupt)
    prepared_s: list[float] = field(default_factory=list)  # when the preparation started
    prepared_in: list[str] = field(default_factory=list)  # the phases in which it started
    took_s: float = 0.0

    def __post_init__(self) -> None:
        (self.folder / "journals").mkdir()
        self.progress = RecordedProgress()
        self.log = RunLog(self.progress, RunClock(time.monotonic_ns(), time.time() * 1000))

    def perform(self) -> FinalState:
        plan = RunPlan(
            Options(time_limit_s=self.limit_s, rate=10),
            self.folder,
            PIPELINE,
            {"s": ("s-1",)},
            ("w0", "w1", "w2"),
            self.faults,
            NEMESES,
            {"s": self.program},
            self.program,
            SOON,
        )
        start_s = time.monotonic()

        def begin() -> None:
            self.prepared_s.append(time.monotonic() - start_s)
            self.prepared_in.append(self.progress.lines[-1])

        early_start = EarlyStart(begin, self.lead_s)
        try:
            with Supervisor() as supervisor:
                running: Any = RunResources(self.cluster, supervisor, self.interrupt, FakeEndMarkers())
                return perform(plan, running, self.log, early_start)
        finally:
            self.took_s = time.monotonic() - start_s

    @property
    def problems(self) -> list[str]:
        return [problem.code for problem in self.log.evidence_problems]


def test_a_run_injects_faults_heals_them_and_reads_the_final_state(tmp_path: Path) -> None:
    clients = ObservedClients(versions={"EndTxn": (1,)})
    cluster = FakeCluster(network=FakeNetwork(clients={"w0": clients}))
    run = FakeWholeRun(tmp_path, cluster, faults=(KILL, CUT))
    final_state = run.perform()
    assert [(report.fault, report.acted) for report in run.log.reports] == [
        ("kill-broker", True),
        ("partition", True),
    ]
    assert run.problems == []
    assert final_state.leaders.keys() >= set(PIPELINE.topic_partitions)
    assert run.log.requests == clients
    assert run.log.program_clients == {}  # workers of Fencepost keep journals
    assert run.progress.lines[:3] == ["topics", "workers", "faults"]
    assert run.prepared_in == ["faults"]
    assert run.took_s >= run.limit_s
    assert (tmp_path / "journals" / "nemesis.jsonl").read_text().count("kill-broker") == 2


@dataclass(frozen=True)
class WatchedStarts(Script):
    """A program that notes which links have an effect at each start of a worker."""

    network: FakeNetwork = field(default_factory=FakeNetwork)
    affected: list[list[str]] = field(default_factory=list)

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        if spec.role is Role.WORKER:
            self.affected.append(list(self.network.affected))
        return super().command_line(spec)


@pytest.mark.parametrize("since", [True, False])
def test_a_rule_since_the_start_is_in_force_before_the_first_worker_starts(
    since: bool, tmp_path: Path
) -> None:
    network = FakeNetwork(links=["client:w0->1"])
    program = WatchedStarts(network=network)
    parameters = {name: value for name, value in SINCE_START.parameters.items() if name != "since" or since}
    run = FakeWholeRun(
        tmp_path,
        FakeCluster(network=network),
        program,
        faults=(replace(SINCE_START, parameters=parameters), KILL),
    )
    run.perform()
    assert program.affected[0] == (["client:w0->1"] if since else [])
    assert {report.fault: report.acted for report in run.log.reports} == {"rule": True, "kill-broker": True}
    rule_s, kill_s = (
        next(each.end_s for each in run.log.reports if each.fault == name) for name in ("rule", "kill-broker")
    )
    assert (
        rule_s is not None and kill_s is not None and rule_s > kill_s
    )  # its time counts from the first input
    assert network.affected == []


def test_a_rule_since_the_start_is_healed_if_a_worker_does_not_start(tmp_path: Path) -> None:
    network = FakeNetwork(links=["client:w0->1"])
    run = FakeWholeRun(tmp_path, FakeCluster(network=network), Script(EXITS_AT_START), faults=(SINCE_START,))
    with pytest.raises(StartFailed):
        run.perform()
    assert network.imposed and network.affected == []


def test_a_rule_since_the_start_that_cannot_be_in_force_ends_the_run(tmp_path: Path) -> None:
    network = FakeNetwork(links=["peer:1->2:int"])
    run = FakeWholeRun(tmp_path, FakeCluster(network=network), faults=(SINCE_START,), limit_s=600.0)
    with pytest.raises(FaultFailed, match="this cluster has no links client:w"):
        run.perform()
    assert run.took_s < 60


def test_the_error_of_a_fault_is_not_hidden_by_a_proxy_that_does_not_answer(tmp_path: Path) -> None:
    class SilentNetwork(FakeNetwork):
        def undecoded(self) -> Sequence[str]:
            raise FaultFailed("the protocol proxy does not answer")

    cluster = FakeCluster(network=SilentNetwork(links=["peer:1->2:int"]))
    run = FakeWholeRun(tmp_path, cluster, faults=(SINCE_START,), limit_s=600.0)
    with pytest.raises(FaultFailed, match="this cluster has no links client:w"):
        run.perform()


def test_clients_are_not_known_without_a_protocol_proxy(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, FakeCluster(network=FakeNetwork(decoded=False)))
    run.perform()
    assert run.log.requests == ObservedClients() and run.problems == []


def test_the_preparation_of_a_short_run_starts_at_once(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, lead_s=600.0)
    run.perform()
    assert run.prepared_in == ["faults"] and run.prepared_s[0] < run.took_s / 2


def test_an_interrupted_run_ends_early_and_reads_the_final_state(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, limit_s=600.0)
    threading.Timer(0.7, run.interrupt._end_early.set).start()
    final_state = run.perform()
    assert run.took_s < 60 and final_state.leaders
    assert len(run.prepared_s) == 1  # the evidence will be checked


@pytest.mark.parametrize(
    ("cluster", "fault"),
    [(FakeCluster(heal_fails=True), KILL), (FakeCluster(network=FakeNetwork(heal_fails=True)), CUT)],
)
def test_a_heal_that_fails_ends_the_run_at_once(
    cluster: FakeCluster, fault: PlannedFault, tmp_path: Path
) -> None:
    run = FakeWholeRun(tmp_path, cluster, faults=(fault,), limit_s=600.0)
    with pytest.raises(FaultFailed):
        run.perform()
    assert run.took_s < 60


def test_a_feeder_that_ends_by_itself_ends_the_run_with_its_last_output(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, program=Script(others={Role.FEEDER: EXITS_WHEN_READY}), limit_s=600.0)
    with pytest.raises(EnvironmentFailure, match=r"feeder ended unexpectedly: .*Segmentation fault"):
        run.perform()


def test_a_feeder_whose_inputs_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    body = 'report(ready=True)\nprint("expect.py:purchase raised ValueError: out of stock")\nsys.exit(2)'
    run = FakeWholeRun(tmp_path, program=Script(others={Role.FEEDER: body}), limit_s=600.0)
    with pytest.raises(
        UsageError, match=r"could not send the next input: expect.py:purchase raised ValueError: out of stock"
    ):
        run.perform()
    assert run.took_s < 60


def test_a_network_that_has_ended_ends_the_run(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, FakeCluster(network=FakeNetwork(problem="toxiproxy, killed")), limit_s=600.0)
    with pytest.raises(
        EnvironmentFailure, match="links of the run has ended: toxiproxy, killed; start the run"
    ):
        run.perform()


def test_messages_that_no_rule_has_seen_are_a_warning(tmp_path: Path) -> None:
    network = FakeNetwork(not_decoded=("2 EndTxn requests on client:w0->1 (it is too short)",))
    run = FakeWholeRun(tmp_path, FakeCluster(network=network))
    run.perform()
    (warning,) = run.log.unexpected_errors
    assert (warning.code, warning.text) == (
        "messages-not-decoded",
        "no rule has seen 2 EndTxn requests on client:w0->1 (it is too short), which passed unchanged",
    )


def test_a_worker_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="Segmentation fault"):
        FakeWholeRun(tmp_path, program=Script(EXITS_AT_START)).perform()


def test_an_observer_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    run = FakeWholeRun(tmp_path, program=Script(WORKS, {Role.OBSERVER: EXITS_WHEN_READY}), limit_s=600.0)
    with pytest.raises(EnvironmentFailure, match="observer-1 ended unexpectedly"):
        run.perform()


class AnyOrder(RuleBasedStateMachine):
    """Faults of brokers and of the network are injected and healed in any order, also in orders without a schedule."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster()
        self.cluster.create_topics(PIPELINE.topics, 1)
        processes: Any = None
        cluster: Any = self.cluster
        self.context = FaultContext(cluster, processes, ("in", "out"))
        self.active: dict[str, Any] = {}

    @precondition(lambda self: not self.active)
    @rule(
        fault=st.sampled_from(["kill-broker", "pause-broker", "kill-group-coordinator"]),
        partition=st.sampled_from(["in/0", "out/0"]),
    )
    def inject(self, fault: str, partition: str) -> None:
        role = Target("group-coordinator", "g") if "group" in fault else Target("leader", partition)
        fault_context = NEMESES[fault].inject(self.context, PlannedFault(fault, role, 0.0, 0.0))
        effect = fault_context.__enter__()
        assert effect.acted and effect.short_target in effect.describe("was killed")
        self.active[fault] = fault_context

    @precondition(lambda self: "partition" not in self.active)
    @rule(broker=st.sampled_from(["1", "2", "3"]))
    def cut(self, broker: str) -> None:
        fault_context = NEMESES["partition"].inject(
            self.context, PlannedFault("partition", Target("isolate", broker), 0.0, 0.0)
        )
        fault_context.__enter__()
        self.active["partition"] = fault_context

    @precondition(lambda self: self.active)
    @rule(which=st.integers(0, 3))
    def heal(self, which: int) -> None:
        name = sorted(self.active)[which % len(self.active)]
        if name == "partition" and len(self.active) > 1:
            return  # its heal waits until every broker runs
        self.active.pop(name).__exit__(None, None, None)

    @invariant()
    def every_leader_is_a_running_broker(self) -> None:
        up = {broker.id for broker in self.cluster.brokers if broker.running}
        assert {self.cluster.leader_of("in/0"), self.cluster.leader_of("out/0")} <= up

    @invariant()
    def a_healed_fault_leaves_no_effect(self) -> None:
        brokers = [broker for broker in self.cluster.brokers if not broker.running]
        assert len(brokers) == len(self.active.keys() - {"partition"})
        assert bool(self.cluster.network.affected) == ("partition" in self.active)

    def teardown(self) -> None:
        for name in sorted(self.active, key=lambda name: name == "partition"):  # brokers first
            self.active.pop(name).__exit__(None, None, None)


AnyOrder.TestCase.settings = settings(
    max_examples=30, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFaultsInAnyOrder = AnyOrder.TestCase


def test_a_transactional_id_belongs_to_the_instance_that_ran_when_it_was_last_used() -> None:
    clients = ObservedClients(("c",), transactional_ids={"a": 5, "b": 25, "c": 12}, without_generation=True)
    network = FakeNetwork(clients={"w0": clients, "w1": ObservedClients()})
    network.links = ("client:w0->1", "client:w1->1")
    shape: dict[str, Any] = {"role": Role.WORKER, "child": None, "channel": None, "rules": ProgramRules()}
    processes = [
        RunProcess("bill-1.0", endpoint="w0", started_ns=1, **shape),
        RunProcess("bill-2.0", endpoint="w1", started_ns=2, **shape),
        RunProcess("bill-1.1", endpoint="w0", started_ns=20, **shape),
        RunProcess("shop-1.0", endpoint="w0", started_ns=1, **shape | {"rules": None}),
    ]
    assert dict(program_clients(network, processes)) == {
        "bill-1.0": ProgramClient(["a", "c"], True),
        "bill-1.1": ProgramClient(["b"], True),
    }
