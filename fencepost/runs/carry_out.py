"""`fencepost run`: from options to a verdict. This module connects all packages of Fencepost."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import libversion

from checkers.spark.session import reach_master
from fencepost import registry
from fencepost.checks.run_report import write_run_report
from fencepost.checks.spark import RunSpark
from fencepost.runs.planning import (
    draw_schedule,
    pipeline_spec,
    plan_run,
    require_ready,
    stored_plan,
    tag_for,
    witness_of,
)
from fencepost.runs.preparing import archives_beside, end_leftovers, planned_mb, prepare_cluster
from fencepost.runs.programs import progress_commands
from fencepost.runs.protocol_rules import decoded_links, require_known_messages
from harness.cluster import Cluster, ClusterSpec
from harness.cluster.kinds.kind import ClusterParts
from harness.cluster.kinds.registry import CLUSTERS, kafka_version_of, with_broker_count
from harness.common.errors import FencepostError
from harness.common.progress import Progress
from harness.common.wording import redact_text
from harness.databases.interface import DatabaseBacklog, DatabaseParts, Service
from harness.databases.registry import DATABASES
from harness.environment.cache import cache_folder
from harness.environment.doctor import DISK_MB, memory_mb
from harness.environment.resources import PortBlock, require
from harness.model.fault_names import is_drawn
from harness.model.promises import HISTORY_FILE
from harness.processes.spawn import Supervisor
from harness.record import run_tables as store
from harness.record.client_history import file_crc
from harness.record.protocol_journal import JOURNAL
from harness.results.reasons import ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Verdict
from harness.runner import schedule as schedules
from harness.runner.end_markers import OffsetEndMarkers, SentinelEndMarkers
from harness.runner.final_state import FinalState
from harness.runner.interrupt import Interrupt, InterruptPhase
from harness.runner.processes import HARNESS_ENDPOINT, RunClock
from harness.runner.progress import ProgressCommands
from harness.runner.run import EarlyStart, RunPlan, RunResources, perform
from harness.runner.run_log import RunLog, record_clients
from harness.runner.schedule import Schedule
from harness.settings.kinds import ClientChoice
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from harness.witness import FETCHED_FOLDER
from harness.witness.tabulate import PartitionEnds, count_rows, tabulate, unexpected_errors
from workloads.custom.pipeline import CustomPipeline
from workloads.model.workload import Workload

if TYPE_CHECKING:
    from fencepost.runs.planning import AnyPipeline
    from harness.environment import PreparedEnvironment


def run(
    options: Options,
    progress: Progress,
    *,
    command: str,
    schedule: Schedule | None = None,
    control: Path | None = None,
) -> tuple[Verdict, Path]:
    """Run a pipeline under faults and check it. Returns the verdict and the run folder.

    Args:
        command: The shell command that repeats the run.
        schedule: The faults and the churn of a stored run. None: draw them from the seed.
        control: The folder of the same run without faults. None: there is none.
    """
    workload = registry.pipeline_of(options)
    options = with_broker_count(options)
    require_ready(workload, options)
    schedule = draw_schedule(options, workload) if schedule is None else schedule
    _show_plan(options, schedule, progress)
    if options.master.startswith("spark://"):  # fail early, because without Spark there is no verdict
        reach_master(options.master)
    with Interrupt() as interrupt, ExitStack() as stack:
        spark = RunSpark(options, stack)
        finished = perform_run(options, progress, command, workload, schedule, interrupt, stack, spark)
        if control is not None:
            finished.run_log.control = os.path.relpath(control, finished.folder)
            finished.run_metadata().save(finished.folder / "metadata.json")
        try:
            with finished.run_log.consecutive_phases() as begin:
                verdict = spark.check(finished.folder, begin)
        except FencepostError:
            progress.say(f"the run has no verdict yet: `fencepost check {finished.folder}` checks it again")
            raise
        finished.run_metadata().save(finished.folder / "metadata.json")
        _save_verdict(finished.folder, verdict, finished.run_log)
        return verdict, finished.folder


def run_without_verdict(options: Options, progress: Progress, *, command: str) -> Path:
    """Run a pipeline under faults, and store its evidence for `fencepost check`. Returns the run folder.

    Raises KeyboardInterrupt if the run was interrupted, because it is then shorter than its options say.
    """
    workload = registry.pipeline_of(options)
    options = with_broker_count(options)
    require_ready(workload, options)
    schedule = draw_schedule(options, workload)
    _show_plan(options, schedule, progress)
    with Interrupt() as interrupt, ExitStack() as stack:
        finished = perform_run(options, progress, command, workload, schedule, interrupt, stack, None)
        if interrupt.requested:
            raise KeyboardInterrupt
        return finished.folder


def _show_plan(options: Options, schedule: Schedule, progress: Progress) -> None:
    progress.say(
        "planned, in seconds after the first input:" if schedule.planned_faults else _no_faults(options)
    )
    for planned in schedule.planned_faults:
        progress.say(f"  {planned}")
    for change in schedule.churn:
        progress.say(f"  {change}")


def _no_faults(options: Options) -> str:
    if options.defect and options.nemesis is None:
        return f"no faults are planned, because the defect {options.defect} shows without them"
    if is_drawn(options.nemesis):
        nemeses = registry.nemeses().values()
        return (
            f"no faults are planned, because {schedules.no_fault_fits_message(nemeses, options.time_limit_s)}"
        )
    return "no faults are planned"


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended and has its tables. It can be checked now, or together with others."""

    folder: Path
    plan: StoredPlan
    run_log: RunLog
    run_metadata: Callable[[], RunMetadata]


def perform_run(
    options: Options,
    progress: Progress,
    command: str,
    workload: "AnyPipeline",
    schedule: Schedule,
    interrupt: Interrupt,
    stack: ExitStack,
    spark: RunSpark | None,
) -> FinishedRun:
    """Run the pipeline under faults, and make tables from its evidence. This checks nothing.

    `spark` is started before the end of the run. None: the run is checked later, together with others.
    """
    root = Path(options.store)
    progress.phase("preparing")
    cache = cache_folder()
    prepared = _prepare(options, workload, schedule, cache, progress.say, stack)
    require_known_messages(schedule.planned_faults, prepared.kafka)
    started = datetime.now(UTC)
    folder = store.create_run_folder(root, options.name or workload.name, started)
    require(memory_mb(options.brokers), DISK_MB + planned_mb(options), folder)
    end_leftovers(cache, progress.say)
    digest = digest_of(workload)
    tag = tag_for(options)
    run_plan = plan_run(options, workload, schedule, folder, prepared, tag)
    clock = RunClock(time.monotonic_ns(), time.time() * 1000)
    plan = stored_plan(options, run_plan, schedule, command, started, clock)
    plan.save(folder / store.PLAN)
    stack.enter_context(store.lock_run(folder))
    run_log = RunLog(progress, clock, ClientChoice.of(options.client).notes)
    if is_drawn(options.nemesis) and not schedule.planned_faults and not options.defect:
        nemeses = registry.nemeses().values()
        run_log.unmet_goals["faults"] = schedules.no_fault_fits_message(nemeses, options.time_limit_s)
    supervisor = stack.enter_context(Supervisor())
    ports = stack.enter_context(PortBlock(cache, first_port=options.first_port))

    def run_metadata() -> RunMetadata:
        return run_log.to_metadata(interrupt.requested, schedule.left_out, _versions(options, prepared))

    with ExitStack() as services_stack:
        with run_log.phase("stores"):
            database_parts = DatabaseParts(folder, supervisor, ports.take, prepared.postgres)
            services, backlog = _start_databases(run_plan, database_parts, services_stack)
        with run_log.phase("cluster"):
            parts = ClusterParts(
                _cluster_of(options, run_plan, tag), folder, prepared, supervisor, ports.take
            )
            cluster = services_stack.enter_context(CLUSTERS[options.cluster].open(parts))
            run_log.features = cluster.finalized_features()
        # Not earlier, because a run that ends before this has no evidence.
        store.update_latest_link(root, folder)
        try:
            ends = (
                SentinelEndMarkers(cluster, backlog)
                if run_plan.pipeline.journaled
                else _offset_end_markers(options, workload, run_plan, cluster, supervisor)
            )
            running = RunResources(cluster, supervisor, interrupt, ends, services, backlog)
            early_start = EarlyStart(
                (lambda: spark.start(prepared.java)) if spark else lambda: None,
                spark.lead_s() if spark else 0.0,
            )
            final_state = perform(run_plan, running, run_log, early_start)
            report_edit(workload, digest, run_log)
        except FencepostError as error:
            run_log.add_problem(ReasonCode.RUN_FAILED, f"the run failed: {redact_text(str(error))}")
            run_metadata().save(folder / "metadata.json")
            raise
    interrupt.phase = InterruptPhase.CHECKING
    _tabulate(folder, plan, run_log, final_state)
    run_metadata().save(folder / "metadata.json")
    return FinishedRun(folder, plan, run_log, run_metadata)


def _offset_end_markers(
    options: Options, workload: "AnyPipeline", run_plan: RunPlan, cluster: Cluster, supervisor: Supervisor
) -> OffsetEndMarkers:
    commands = progress_commands(options, workload, run_plan.programs)
    ask = ProgressCommands(commands, supervisor, cluster.bootstrap, run_plan.folder / "workers")
    return OffsetEndMarkers(cluster, ask, {name: command.words for name, command in commands.items()})


def _start_databases(
    run_plan: RunPlan, parts: DatabaseParts, stack: ExitStack
) -> tuple[dict[str, Service], DatabaseBacklog]:
    """Start the database servers of the pipeline. Returns them by kind, and the backlog of its input tables."""
    servers = {
        kind: stack.enter_context(DATABASES[kind].provide(parts)) for kind in run_plan.pipeline.database_kinds
    }
    inputs = {
        table.name: DATABASES[table.store].inputs(DATABASES[table.store].address(parts.folder))
        for table in run_plan.pipeline.input_tables
    }
    backlog = DatabaseBacklog(inputs)
    stack.callback(backlog.close)
    return {kind: service for kind, service in servers.items() if service is not None}, backlog


def _cluster_of(options: Options, run_plan: RunPlan, tag: str) -> ClusterSpec:
    """The cluster that the options describe, with a listener for each client endpoint."""
    return ClusterSpec(
        brokers=options.brokers,
        endpoints=(HARNESS_ENDPOINT, *run_plan.worker_endpoints),
        kafka=options.kafka,
        settings=options.settings,
        heap_mb=options.heap_mb,
        witness=witness_of(options),
        bootstrap=options.bootstrap,
        client_config=options.client_config,
        tag=tag,
        groups=tuple(stage.group for stage in run_plan.pipeline.stages if stage.group is not None),
        keep_topics=options.keep == "topics",
        permits=options.permits or (),
        transaction_version=options.transaction_version,
        decoded=decoded_links(options, run_plan.pipeline, run_plan.faults),
    )


def _prepare(
    options: Options,
    workload: "AnyPipeline",
    schedule: Schedule,
    cache: Path,
    say: Callable[[str], None],
    stack: ExitStack,
) -> "PreparedEnvironment":
    """Find or download the programs that the run needs. The end of `stack` waits for the archives of classes."""
    stores = pipeline_spec(options, workload).database_kinds
    faults = {planned.fault for planned in schedule.planned_faults}
    upgrades = {version for planned in schedule.planned_faults for version in planned.target.kafka_versions}
    clients = (ClientChoice.of(options.client).name,)
    ready = prepare_cluster(
        *(options, cache, say),
        clients=clients,
        stores=stores,
        faults=faults,
        upgrades=sorted(upgrades - {options.kafka}),
    )
    stack.enter_context(archives_beside(ready, say))
    return ready


def digest_of(pipeline: Workload | CustomPipeline) -> str | None:
    """A digest of the files that describe a custom pipeline. None for a workload."""
    return pipeline.digest() if isinstance(pipeline, CustomPipeline) else None


def report_edit(pipeline: Workload | CustomPipeline, digest: str | None, run_log: RunLog) -> None:
    """Report a problem if a custom pipeline was edited during the run, because its final readers load it again."""
    if isinstance(pipeline, CustomPipeline) and pipeline.digest() != digest:
        file = str(pipeline.description.file)
        text = f"{file}, or a file with its functions, was changed during the run"
        run_log.add_problem(ReasonCode.DESCRIPTION_CHANGED, text, file)


def _save_verdict(folder: Path, verdict: Verdict, run_log: RunLog) -> None:
    verdict.save(folder / "verdict.json")
    with run_log.phase("report"):
        write_run_report(folder, verdict, run_log.now_s())


def _tabulate(folder: Path, plan: StoredPlan, run_log: RunLog, final_state: FinalState) -> None:
    """Make tables from the evidence. Delete the segment files, unless `keep` says `logs`."""
    with run_log.phase("tables"):
        tabulate(
            folder,
            int(plan.run["id"]),
            plan.pipeline,
            plan.promises,
            PartitionEnds(final_state.leaders, final_state.high_watermarks, final_state.compacted),
        )
        run_log.rows, run_log.compacted = count_rows(folder), final_state.compacted
        run_log.unreadable_logs = final_state.unreadable_logs
        if plan.promises.history:
            run_log.history_crc = file_crc(folder / HISTORY_FILE)
        if (folder / JOURNAL).exists():
            run_log.protocol_crc = file_crc(folder / JOURNAL)
        run_log.unexpected_errors += unexpected_errors(folder)
        record_clients(folder, ClientChoice.of(plan.options.client), run_log)
        if plan.options.keep != "logs":
            _delete_segments(folder)


def _delete_segments(folder: Path) -> None:
    """Delete the segment files, whose content is in `log/` now. The log files of the brokers stay."""
    for subfolder in ("brokers", FETCHED_FOLDER):
        for data in (folder / subfolder).glob("*/data"):
            shutil.rmtree(data)
    shutil.rmtree(folder / FETCHED_FOLDER, ignore_errors=True)


def _versions(options: Options, prepared: "PreparedEnvironment") -> dict[str, str]:
    database = prepared.postgres
    return {
        "fencepost": version("fencepost"),
        "kafka": kafka_version_of(options),
        "java": f"{prepared.java.version} ({prepared.java.origin})",
        "librdkafka": libversion()[0],
        "confluent-kafka": version("confluent-kafka"),
        "pyspark": version("pyspark"),
        **({"postgres": f"{database.version} ({database.origin})"} if database else {}),
    }
