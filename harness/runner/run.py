"""One run: a cluster, a pipeline, faults, and everything that is needed to judge what came of it.

`perform` reads as a table of contents. What it leaves in the run's folder is evidence, not a
verdict: journals, tables, and the facts that only the run itself can tell.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cluster import Cluster, Network, TopicSpec
from harness.errors import EnvironmentFailure
from harness.history import Role
from harness.processes.spawn import Supervisor
from harness.record.journal import Journal
from harness.record.tables import StageFacts
from harness.runner.carry_out import Lanes
from harness.runner.interrupt import Interrupt, Stage
from harness.runner.processes import Clock, Processes
from harness.runner.progress import Tick
from harness.runner.quiescence import Quiet, quiesce
from harness.runner.run_log import RunLog
from harness.runner.schedule import FaultContext, Injection, Nemesis
from harness.settings.options import Options

TOPICS_TIMEOUT_S = 60.0
OVERTIME_S = 120.0
"""How long injections that began late may go on beyond the time limit."""
EARLY_S = 12.0
"""What the analysis needs to come up, so it begins so long before the time limit."""


@dataclass(frozen=True)
class Test:
    """Everything that is fixed before a run begins."""

    options: Options
    folder: Path
    topics: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[StageFacts, ...]
    workers: Mapping[str, tuple[str, ...]]  # by stage
    worker_slots: tuple[str, ...]
    injections: Sequence[Injection]
    nemeses: Mapping[str, Nemesis]
    common: Mapping[str, Any]  # what every process of the processes is told

    @property
    def places(self) -> list[tuple[str, int]]:
        """All partitions of the pipeline."""
        return [(topic, p) for topic in self.topics for p in range(self.options.partitions)]


@dataclass(frozen=True)
class Running:
    """The parts that a run needs, already up: handed in by the front door."""

    cluster: Cluster
    network: Network
    supervisor: Supervisor
    interrupt: Interrupt


def perform(test: Test, running: Running, run_log: RunLog, at_the_end: Callable[[], None]) -> Quiet:
    """Run the pipeline under faults, and bring everything to rest.

    `at_the_end` is called once, `EARLY_S` before the time limit.
    Returns what the end looked like. Raises the first error of a fault, once everything is healed.
    """
    with run_log.phase("topics"):
        config = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
        topics = [TopicSpec(topic, test.options.partitions, 3, config) for topic in test.topics]
        running.cluster.create_topics(topics, TOPICS_TIMEOUT_S)
    processes = _crew(test, running, run_log.clock)
    with Journal(
        test.folder / "journals" / "nemesis.jsonl", "nemesis", run_log.clock.zero_ns, {"role": "nemesis"}
    ) as journal:
        with run_log.phase("workers"):
            _start_all(test, processes)
        with run_log.phase("faults"):
            lanes = _under_faults(test, running, processes, journal, run_log, at_the_end)
    run_log.reports += lanes.struck.reports
    run_log.unmet_goals |= lanes.struck.lacking
    quiet = quiesce(
        test.places, test.stages, FaultContext(running.cluster, running.network, processes), run_log
    )
    run_log.unexpected_errors += processes.unexpected_errors
    run_log.counts = processes.counts()
    for error in lanes.struck.errors:
        raise error
    return quiet


def _crew(test: Test, running: Running, clock: Clock) -> Processes:
    return Processes(
        running.supervisor,
        test.folder,
        clock,
        lambda slot: running.cluster.bootstrap if slot == "harness" else running.cluster.bootstrap_for(slot),
        test.worker_slots,
        {facts.name: facts.group for facts in test.stages},
        test.common,
    )


def _start_all(test: Test, processes: Processes) -> None:
    """Start everybody but the feeder, and wait until all are ready."""
    workers = [
        processes.start_worker(stage, worker) for stage, named in test.workers.items() for worker in named
    ]
    watched = [place for place in test.places if place[0] in test.outputs]
    observer = processes.start_other(Role.OBSERVER, "observer-1", "aside", places=watched)
    processes.await_ready([*workers, observer])


def _under_faults(
    test: Test,
    running: Running,
    processes: Processes,
    journal: Journal,
    run_log: RunLog,
    near_the_end: Callable[[], None],
) -> Lanes:
    """Feed, strike, watch and mend, until the time is over and every strike is healed."""
    feeder = processes.start_other(Role.FEEDER, "feeder", "aside", rate=test.options.rate)
    processes.await_ready([feeder])
    begun_s = time.monotonic()
    running.interrupt.stage = Stage.UNDER_FAULTS
    context = FaultContext(running.cluster, running.network, processes)
    lanes = Lanes(test.injections, test.nemeses, context, journal, begun_s)
    lanes.start()
    watch = Watch(processes, test, begun_s)
    told = False
    try:
        while not running.interrupt.wait(0.25):
            over_s = time.monotonic() - begun_s - test.options.time_limit_s
            if over_s >= -EARLY_S and not told:
                told = True
                near_the_end()
            if lanes.struck.errors or (over_s >= 0 and lanes.done):
                break
            if over_s > OVERTIME_S:
                run_log.evidence_problems.append(
                    f"faults were still on {OVERTIME_S:g} s after the time limit"
                )
                break
            if not running.supervisor.alive:
                raise EnvironmentFailure("the guardian process is gone, so nothing would clean up: run again")
            if not running.network.alive:
                raise EnvironmentFailure("toxiproxy, through which everything goes, has ended: run again")
            if not feeder.alive:
                raise EnvironmentFailure(f"the feeder ended by itself: {processes.last_words(feeder)}")
            processes.mend()
            run_log.progress.tick(watch.tick(tuple(lanes.struck.on)))
    finally:
        lanes.stop()  # whatever ended the loop, what is broken is put right
    run_log.evidence_problems += processes.stop([feeder])
    if not told:
        near_the_end()
    return lanes


class Watch:
    """Reads the state of a run off what its processes have told."""

    def __init__(self, processes: Processes, test: Test, begun_s: float) -> None:
        self._crew = processes
        self._first_stage = test.stages[0].name
        self._limit_s = test.options.time_limit_s
        self._begun_s = begun_s
        self._last = (begun_s, 0)

    def tick(self, faults: tuple[str, ...]) -> Tick:
        """How it goes now."""
        counts = self._crew.counts()
        committed = counts.get("committed", 0)
        now_s = time.monotonic()
        before_s, before = self._last
        if now_s - before_s >= 1.0:
            self._last = (now_s, committed)
        fed = max((member.told.get("fed", 0) for member in self._crew.members), default=0)
        done = sum(
            member.told.get("counts", {}).get("inputs", 0)
            for member in list(self._crew.members)
            if member.stage == self._first_stage
        )
        return Tick(
            elapsed_s=now_s - self._begun_s,
            left_s=max(0.0, self._begun_s + self._limit_s - now_s),
            inputs=fed,
            committed=committed,
            aborted=counts.get("aborted", 0) + counts.get("failed", 0),
            info=counts.get("info", 0),
            fenced=counts.get("fenced", 0),
            rate_tps=(committed - before) / max(now_s - before_s, 0.001),
            lag=max(0, fed - done),
            faults=faults,
        )
