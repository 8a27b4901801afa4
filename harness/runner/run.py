"""One run: a cluster, a pipeline, faults, and everything that is needed to judge what came of it.

`perform` reads as a table of contents. What it leaves in the run's folder is evidence, not a
verdict: journals, tables, and the facts that only the run itself can tell.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import Cluster
from harness.common.errors import (
    EnvironmentFailure,
    ExitStatus,
    PipelineFailed,
    StartFailed,
    UsageError,
    WaitTimeout,
)
from harness.databases.backlog import Backlog, no_backlog
from harness.databases.interface import Service
from harness.model.pipeline import PipelineSpec
from harness.processes.control_line import Command
from harness.processes.program import Program
from harness.processes.spawn import Supervisor
from harness.processes.specs import FeederSpec, ObserverSpec
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.results.reasons import ReasonCode
from harness.runner.churn import Churn, PlannedChange, read_membership_changes
from harness.runner.end_markers import EndMarkers
from harness.runner.final_state import DrainTimeouts, FinalState, quiesce
from harness.runner.inject import FaultInjector
from harness.runner.interrupt import Interrupt, InterruptPhase
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext, Nemesis, PlannedFault
from harness.runner.processes import OBSERVER_ENDPOINT, Processes, RunClock
from harness.runner.request_recording import RequestRecording
from harness.runner.run_log import RunLog
from harness.runner.stalls import explain_kill, update_stalls
from harness.runner.watch import Watch
from harness.settings.options import Options

TOPICS_TIMEOUT_S = 60.0
OVERTIME_S = 120.0
"""How long faults that began late may go on beyond the time limit."""
TICK_S = 0.25


@dataclass(frozen=True)
class RunPlan:
    """Everything that is fixed before a run begins."""

    options: Options
    folder: Path
    pipeline: PipelineSpec
    workers: Mapping[str, tuple[str, ...]]  # by stage
    worker_endpoints: tuple[str, ...]
    injections: Sequence[PlannedFault]
    nemeses: Mapping[str, Nemesis]
    programs: Mapping[str, Program]  # of the workers, by stage
    own: Program  # of feeder, observer and readers
    patience: DrainTimeouts = field(default_factory=DrainTimeouts)
    churn: Sequence[PlannedChange] = ()


@dataclass(frozen=True)
class Preparation:
    """What is begun before a run is over, to be ready at its end."""

    begin: Callable[[], None]
    by_s: float  # `begin` is called so long before the time limit, or at once where the limit is shorter


@dataclass(frozen=True)
class RunResources:
    """The parts that a run needs, already up: handed in by the front door."""

    cluster: Cluster
    supervisor: Supervisor
    interrupt: Interrupt
    ends: EndMarkers
    services: Mapping[str, Service] = field(default_factory=dict)  # the servers of the pipeline's stores
    backlog: Backlog = no_backlog


def perform(test: RunPlan, running: RunResources, run_log: RunLog, ahead: Preparation) -> FinalState:
    """Run the pipeline under faults, and bring everything to rest.

    Returns what the end looked like. Raises the first error of a fault, once everything is healed.
    """
    with run_log.phase("topics"):
        running.cluster.create_topics(test.pipeline.topics, TOPICS_TIMEOUT_S)
    processes = _processes(test, running, run_log.clock)
    topics = tuple(topic.name for topic in test.pipeline.topics)
    context = FaultContext(
        running.cluster, processes, topics, test.pipeline.stages, running.services, running.backlog
    )
    path = test.folder / "journals" / "nemesis.jsonl"
    with Journal(path, run_log.clock.zero_ns, JournalBegan("nemesis", role="nemesis")) as journal:
        recording = RequestRecording(running.cluster, test.worker_endpoints, run_log)
        errors: Sequence[BaseException] = ()
        with run_log.phase("workers"):
            recording.begin()
            feeder = _start_all(test, processes, run_log)
        if feeder is not None:
            with run_log.phase("faults"):
                errors = _under_faults(test, running, context, journal, run_log, ahead, recording, feeder)
        else:
            recording.end(last=True)
            ahead.begin()
    quiet = quiesce(test.pipeline, context, running.ends, run_log, test.patience)
    run_log.unexpected_errors += processes.unexpected_ends
    for error in errors:
        raise error
    return quiet


def _processes(test: RunPlan, running: RunResources, clock: RunClock) -> Processes:
    return Processes(
        running.supervisor,
        test.folder,
        clock,
        lambda endpoint: (
            running.cluster.bootstrap if endpoint == "harness" else running.cluster.bootstrap_for(endpoint)
        ),
        test.worker_endpoints,
        test.pipeline.stages,
        test.programs,
        test.own,
        running.cluster.members,
    )


def _start_all(test: RunPlan, processes: Processes, run_log: RunLog) -> RunProcess | None:
    """Start everybody, and wait until all are ready. Returns the feeder, which waits for its word; None, and a note,
    where a program is not ready.
    """
    written = test.pipeline.written
    watched = tuple(place for place in test.pipeline.places if place[0] in written)
    observer = processes.start_other("observer-1", OBSERVER_ENDPOINT, ObserverSpec(watched))
    feeder = processes.start_other("feeder", OBSERVER_ENDPOINT, FeederSpec(test.options.rate))
    workers: list[RunProcess] = []
    try:
        for stage, named in test.workers.items():
            workers += [processes.start_worker(stage, worker) for worker in named]
        processes.await_ready(workers, run_log.progress.say)
    except (StartFailed, WaitTimeout) as error:
        if test.pipeline.journaled:
            raise
        silent = next((one for one in workers if not one.status.ready), None)
        said = f"; {silent.journal} said last: {silent.last_output()}" if silent else ""
        words = f"the pipeline did not come up: {error}{'' if isinstance(error, StartFailed) else said}"
        run_log.add_problem(ReasonCode.NEVER_CAME_UP, words, silent.journal if silent else "")
        return None
    processes.await_ready([observer, feeder])
    return feeder


def _under_faults(
    test: RunPlan,
    running: RunResources,
    context: FaultContext,
    journal: Journal,
    run_log: RunLog,
    ahead: Preparation,
    recording: RequestRecording,
    feeder: RunProcess,
) -> Sequence[BaseException]:
    """Feed, inject, watch and replace, until the time is over and every fault is healed. Gives the errors of faults."""
    processes = context.processes
    begun_s = time.monotonic()
    feeder.send(Command(go=True))
    running.interrupt.stage = InterruptPhase.UNDER_FAULTS
    carried_out = FaultInjector(test.injections, test.nemeses, context, journal, begun_s)
    churn = Churn(test.churn, processes, journal, carried_out.journal_lock, begun_s)
    carried_out.start()
    churn.start()
    watch = Watch(processes, test.pipeline, test.options, begun_s)
    told = False
    try:
        while not running.interrupt.wait(TICK_S):
            over_s = time.monotonic() - begun_s - test.options.time_limit_s
            if over_s >= -ahead.by_s and not told:
                told = True
                ahead.begin()
            if carried_out.state.errors or churn.errors or (over_s >= 0 and carried_out.done):
                break
            if over_s > OVERTIME_S:
                late = ", ".join(carried_out.state.on.values())
                run_log.add_problem(
                    ReasonCode.FAULTS_LATE, f"{late} was still on {OVERTIME_S:g} s after the time limit", late
                )
                break
            _require_alive(running)
            _require_fed(feeder)
            processes.replace_dead()
            update_stalls(context, run_log)
            run_log.compare_clocks()
            recording.tick(time.monotonic() - begun_s, processes.counts().committed)
            run_log.progress.tick(watch.tick(tuple(carried_out.state.on.values())))
            if advice := watch.advice():
                run_log.progress.say(advice)
    except PipelineFailed as error:
        run_log.add_problem(ReasonCode.PIPELINE_FAILED, str(error))
    finally:
        recording.end(last=True)
        carried_out.stop()  # whatever ended the loop, what is broken is put right
        churn.stop()
    for killed in processes.stop([feeder]):
        run_log.evidence_problems.append(explain_kill(killed, context, run_log))
    if not told:
        ahead.begin()
    injected = carried_out.state
    run_log.reports += injected.reports
    run_log.unmet_goals |= injected.unmet_goals
    run_log.churn = read_membership_changes(test.folder, churn.done)
    if test.churn and not any(one.partitions for one in run_log.churn):
        run_log.unmet_goals["churn"] = (
            "no partition moved while workers joined and left; a longer --time-limit or more --set partitions helps"
        )
    return (*injected.errors, *churn.errors)


def _require_fed(feeder: RunProcess) -> None:
    """Raise where the feeder has ended: `UsageError` where it says that what makes its inputs is to blame."""
    if feeder.alive:
        return
    if feeder.child.poll() == ExitStatus.USAGE:
        raise UsageError(f"no more inputs could be made: {feeder.last_output()}")
    raise EnvironmentFailure(f"the feeder ended by itself: {feeder.last_output()}")


def _require_alive(running: RunResources) -> None:
    """What the run stands on is still there; raises `EnvironmentFailure`."""
    if not running.supervisor.alive:
        raise EnvironmentFailure("the guardian process is gone, so nothing would clean up: run again")
    if not running.cluster.network.alive:
        raise EnvironmentFailure("a proxy through which clients reach the cluster has ended: run again")
    for name, service in running.services.items():
        if not service.is_healthy:
            raise EnvironmentFailure(f"{name}, a store of the pipeline, has ended by itself: see {name}.log")
