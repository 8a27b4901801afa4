"""Perform one run: start the pipeline, inject faults, heal them, and read the final state.

`perform` reads as a table of contents. It leaves evidence in the run folder: journals, and the run log for the run
metadata. It does not decide a verdict.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from harness.databases.interface import Backlog, Service, no_backlog
from harness.model.pipeline import PipelineSpec
from harness.network import Network, client_links_by_broker
from harness.processes.messages import Command
from harness.processes.spawn import Supervisor
from harness.processes.specs import FeederSpec, ObserverSpec, Program
from harness.protocol.observed_clients import ObservedClients
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import ProgramClient
from harness.runner.churn import Churn, PlannedChange, read_membership_changes
from harness.runner.end_markers import EndMarkers
from harness.runner.final_state import DrainTimeouts, FinalState, quiesce
from harness.runner.inject import FaultInjector
from harness.runner.interrupt import Interrupt, InterruptPhase
from harness.runner.nemesis import FaultContext, Nemesis, PlannedFault
from harness.runner.processes import HARNESS_ENDPOINT, Processes, RunClock
from harness.runner.progress import ProgressMeter
from harness.runner.run_log import RunLog, explain_kill, update_slow_calls
from harness.runner.run_process import RunProcess
from harness.settings.options import Options

TOPICS_TIMEOUT_S = 60.0
OVERTIME_S = 120.0
"""If a fault is still active this long after the time limit, the run does not wait for it any longer."""
TICK_S = 0.25


@dataclass(frozen=True)
class RunPlan:
    """Everything that is fixed before a run starts."""

    options: Options
    folder: Path
    pipeline: PipelineSpec
    workers: Mapping[str, tuple[str, ...]]  # by stage
    worker_endpoints: tuple[str, ...]
    faults: Sequence[PlannedFault]
    nemeses: Mapping[str, Nemesis]
    programs: Mapping[str, Program]  # by stage: the program of its workers
    harness_program: Program  # the program of the feeder, the observer and the final readers
    timeouts: DrainTimeouts = field(default_factory=DrainTimeouts)
    churn: Sequence[PlannedChange] = ()
    preload: Path | None = None  # a library for the workers, with which faults change their clocks


@dataclass(frozen=True)
class EarlyStart:
    """Work that starts before the run ends, so that its result is ready at the end (for example the Spark session)."""

    start: Callable[[], None]
    lead_s: (
        float  # time from the call of `start` to the time limit; `start` is called at once in a shorter run
    )


@dataclass(frozen=True)
class RunResources:
    """The resources that a run uses. The caller has started them, and closes them."""

    cluster: Cluster
    supervisor: Supervisor
    interrupt: Interrupt
    ends: EndMarkers
    services: Mapping[str, Service] = field(default_factory=dict)  # the database servers, by name
    backlog: Backlog = no_backlog


def perform(plan: RunPlan, resources: RunResources, run_log: RunLog, early_start: EarlyStart) -> FinalState:
    """Run the pipeline under faults, then stop it and read the final state of the cluster.

    If a fault or a change of the churn failed, raise the first such error, after the final state was read.
    """
    with run_log.phase("topics"):
        resources.cluster.create_topics(plan.pipeline.topics, TOPICS_TIMEOUT_S)
    processes = _processes(plan, resources, run_log.clock)
    topics = tuple(topic.name for topic in plan.pipeline.topics)
    context = FaultContext(
        resources.cluster,
        processes,
        topics,
        plan.pipeline.stages,
        resources.services,
        resources.backlog,
        zero_ns=run_log.clock.zero_ns,
    )
    path = plan.folder / "journals" / "nemesis.jsonl"
    with Journal(path, run_log.clock.zero_ns, JournalBegan("nemesis", role="nemesis")) as journal:
        injector = FaultInjector(plan.faults, plan.nemeses, context, journal)
        errors: Sequence[BaseException] = ()
        try:
            with run_log.phase("workers"):
                injector.start_early()
                feeder = _start_all(plan, processes, run_log)
            if feeder is not None:
                with run_log.phase("faults"):
                    errors = _under_faults(
                        plan, resources, context, journal, injector, run_log, early_start, feeder
                    )
            else:
                early_start.start()
        finally:
            injector.stop()  # heals every active fault, also after an error
        run_log.reports += injector.state.reports
        run_log.unmet_goals |= injector.state.unmet_goals
        errors = (*injector.state.errors, *errors)
    final_state = quiesce(plan.pipeline, context, resources.ends, run_log, plan.timeouts)
    run_log.unexpected_errors += processes.unexpected_ends
    for error in errors:
        raise error
    run_log.unexpected_errors += [
        Reason(ReasonCode.MESSAGES_NOT_DECODED, f"no rule has seen {messages}, which passed unchanged")
        for messages in resources.cluster.network.undecoded()
    ]
    run_log.requests = _observed_clients(resources.cluster.network, plan.worker_endpoints)
    run_log.program_clients = dict(program_clients(resources.cluster.network, processes.all_processes))
    return final_state


def _observed_clients(network: Network, endpoints: Sequence[str]) -> ObservedClients:
    """Return the clients of the workers. It is empty if no fault of the run needs the protocol proxy on their links."""
    links = [
        link for endpoint in endpoints for link in client_links_by_broker(endpoint, network.links).values()
    ]
    return network.observed_clients(links) or ObservedClients()


def program_clients(network: Network, processes: Sequence[RunProcess]) -> Iterator[tuple[str, ProgramClient]]:
    """Yield each instance of a custom pipeline whose requests the protocol proxy has seen, and what they say.

    Instances may use an endpoint one after the other. An id belongs to the one that ran at the id's last request.
    """
    for process in processes:
        if process.rules is None:
            continue
        later_ns = [
            other.started_ns
            for other in processes
            if other.endpoint == process.endpoint and other.started_ns > process.started_ns
        ]
        observed = _observed_clients(network, [process.endpoint])
        last_used = {
            own: at_ns
            for own, at_ns in observed.transactional_ids.items()
            if process.started_ns <= at_ns < min(later_ns, default=math.inf)
        }
        if observed.software or observed.client_ids:
            ids = sorted(last_used, key=lambda own: last_used[own])
            yield process.journal, ProgramClient(ids, observed.without_generation)


def _processes(plan: RunPlan, resources: RunResources, clock: RunClock) -> Processes:
    return Processes(
        resources.supervisor,
        plan.folder,
        clock,
        lambda endpoint: (
            resources.cluster.bootstrap
            if endpoint == "harness"
            else resources.cluster.bootstrap_for(endpoint)
        ),
        plan.worker_endpoints,
        plan.pipeline.stages,
        plan.programs,
        plan.harness_program,
        resources.cluster.members,
        plan.preload,
    )


def _start_all(plan: RunPlan, processes: Processes, run_log: RunLog) -> RunProcess | None:
    """Start all processes and wait until they are ready.

    Returns the feeder, which waits for `Command(go=True)`. Returns None if a custom pipeline did not become ready; this
    is then an evidence problem of the run.
    """
    written_topics = plan.pipeline.output_topics
    observed = tuple(
        topic_partition
        for topic_partition in plan.pipeline.topic_partitions
        if topic_partition[0] in written_topics
    )
    observer = processes.start_harness_process("observer-1", HARNESS_ENDPOINT, ObserverSpec(observed))
    feeder = processes.start_harness_process("feeder", HARNESS_ENDPOINT, FeederSpec(plan.options.rate))
    workers: list[RunProcess] = []
    try:
        for stage, names in plan.workers.items():
            workers += [processes.start_worker(stage, name) for name in names]
        processes.await_ready(workers, run_log.progress.say)
    except (StartFailed, WaitTimeout) as error:
        if plan.pipeline.journaled:
            raise
        not_ready = next((worker for worker in workers if not worker.status.ready), None)
        output = f"; the last output of {not_ready.journal}: {not_ready.last_output()}" if not_ready else ""
        message = f"the pipeline did not start: {error}{'' if isinstance(error, StartFailed) else output}"
        run_log.add_problem(ReasonCode.NEVER_CAME_UP, message, not_ready.journal if not_ready else "")
        return None
    processes.await_ready([observer, feeder])
    return feeder


def _under_faults(
    plan: RunPlan,
    resources: RunResources,
    context: FaultContext,
    journal: Journal,
    injector: FaultInjector,
    run_log: RunLog,
    early_start: EarlyStart,
    feeder: RunProcess,
) -> Sequence[BaseException]:
    """Feed inputs, inject faults and replace dead workers until the time limit is reached and every fault is healed.

    Stop earlier after an interrupt or an error, and at the latest OVERTIME_S after the time limit.
    Returns the errors of the churn.
    """
    processes = context.processes
    start_s = time.monotonic()
    feeder.send(Command(go=True))
    resources.interrupt.phase = InterruptPhase.UNDER_FAULTS
    churn = Churn(plan.churn, processes, journal, injector.journal_lock, start_s)
    injector.start(start_s)
    churn.start()
    meter = ProgressMeter(processes, plan.pipeline, plan.options, start_s)
    prepared = False
    try:
        while not resources.interrupt.wait(TICK_S):
            past_limit_s = time.monotonic() - start_s - plan.options.time_limit_s
            if past_limit_s >= -early_start.lead_s and not prepared:
                prepared = True
                early_start.start()
            _require_alive(resources)  # first: it explains the errors of faults
            if injector.state.errors or churn.errors or (past_limit_s >= 0 and injector.finished):
                break
            if past_limit_s > OVERTIME_S + injector.overtime_s:
                active = ", ".join(injector.state.active.values())
                overtime = f"{OVERTIME_S + injector.overtime_s:g} s"
                run_log.add_problem(
                    ReasonCode.FAULTS_LATE,
                    f"the faults were not finished {overtime} after the time limit (active: {active or 'none'})",
                    active,
                )
                break
            _require_fed(feeder)
            processes.replace_dead()
            update_slow_calls(context, run_log)
            run_log.compare_clocks()
            run_log.progress.update(meter.snapshot(tuple(injector.state.active.values())))
            if advice := meter.advice():
                run_log.progress.say(advice)
    except PipelineFailed as error:
        run_log.add_problem(ReasonCode.PIPELINE_FAILED, str(error))
    finally:
        injector.stop()
        churn.stop()
    for killed in processes.stop([feeder]):
        run_log.evidence_problems.append(explain_kill(killed, context, run_log))
    if not prepared:
        early_start.start()
    _note_churn(plan, churn, run_log)
    return churn.errors


def _note_churn(plan: RunPlan, churn: Churn, run_log: RunLog) -> None:
    """Note which workers joined and left, and whether partitions moved because of it."""
    run_log.churn = read_membership_changes(plan.folder, churn.reports)
    if plan.churn and not any(change.partitions for change in run_log.churn):
        run_log.unmet_goals["churn"] = (
            "no partition moved while workers joined and left; use a longer --time-limit or "
            "more partitions (--set partitions)"
        )


def _require_fed(feeder: RunProcess) -> None:
    """Raise if the feeder has ended.

    Raises:
        UsageError: The feeder ended because of its inputs: their source failed, or one is too large.
        EnvironmentFailure: The feeder ended for another reason.
    """
    if feeder.alive:
        return
    if feeder.child.poll() == ExitStatus.USAGE:
        raise UsageError(f"the feeder could not send the next input: {feeder.last_output()}")
    raise EnvironmentFailure(f"the feeder ended unexpectedly: {feeder.last_output()}")


def _require_alive(resources: RunResources) -> None:
    """Raise `EnvironmentFailure` if the guardian, a proxy or a database server has ended."""
    if not resources.supervisor.alive:
        raise EnvironmentFailure(
            "the guardian process has ended, so nothing would clean up after a crash: start the run again"
        )
    if problem := resources.cluster.network.problem:
        raise EnvironmentFailure(
            f"a process that carries the links of the run has ended: {problem}; start the run again"
        )
    for name, service in resources.services.items():
        if not service.is_healthy:
            raise EnvironmentFailure(
                f"{name}, a database of the pipeline, ended unexpectedly: see {name}.log"
            )
