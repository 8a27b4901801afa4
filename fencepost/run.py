"""`fencepost run`: from options to a verdict. The one place where all rooms meet."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.spark.interrupts import interruptible
from fencepost import registry
from fencepost.drawing import draw_report
from fencepost.judge import judge_one, open_evidence
from fencepost.planning import draw, plan_run, plan_test
from harness.cluster import ClusterSpec
from harness.errors import FencepostError
from harness.facts import Facts
from harness.processes.spawn import Supervisor
from harness.record import store
from harness.runner import schedule as schedules
from harness.runner.interrupt import Interrupt, Stage
from harness.runner.processes import Clock
from harness.runner.progress import Progress
from harness.runner.run import Running, Test, perform
from harness.runner.run_log import RunLog
from harness.runner.schedule import Injection, Schedule
from harness.runner.tabulate import Ends, rows_of, tabulate, unexpected_errors
from harness.settings.options import Options
from harness.settings.test_toml import Plan
from harness.verdict import Verdict

if TYPE_CHECKING:
    from checkers.spark.session import Pending
    from harness.environment import Prepared
    from workloads.model import Workload


def run(
    options: Options, progress: Progress, *, command: str, schedule: Sequence[Mapping[str, Any]] | None = None
) -> tuple[Verdict, Path]:
    """Break a cluster under a pipeline and judge it; returns the verdict and the run's folder."""
    workload = registry.workloads()[options.workload]
    drawn = (
        Schedule(tuple(Injection.from_table(table) for table in schedule))
        if schedule is not None
        else draw(options, workload)
    )
    progress.say("planned, in seconds after the first input:" if drawn.injections else _no_faults(options))
    for strike in drawn.injections:
        progress.say(f"  {strike}")
    with Interrupt() as interrupt, ExitStack() as stack:
        return _run(options, progress, command, workload, drawn, interrupt, stack)


def _no_faults(options: Options) -> str:
    """Why none are planned."""
    if options.defect and options.nemesis is None:
        return f"no faults are planned: {options.defect} does harm without any"
    return "no faults are planned"


def _run(
    options: Options,
    progress: Progress,
    command: str,
    workload: "Workload",
    drawn: Schedule,
    interrupt: Interrupt,
    stack: ExitStack,
) -> tuple[Verdict, Path]:
    from fencepost.spark import begin_early
    from harness.cluster.local import LocalCluster
    from harness.environment.cache import cache_folder
    from harness.environment.doctor import DISK_MB, MEMORY_MB
    from harness.environment.ports import PortBlock
    from harness.environment.resources import require
    from harness.processes.guardian import sweep_leftovers

    root = Path(options.store)
    progress.phase("preparing")
    cache = cache_folder()
    prepared = _prepare(options, cache, progress.say)
    started = datetime.now(UTC)
    folder = store.create(root, options.run_name, started)
    require(MEMORY_MB, DISK_MB, folder)
    for left in sweep_leftovers():
        progress.say(f"ended what an earlier run had left: {left}")
    test = plan_test(options, workload, drawn, folder)
    clock = Clock(time.monotonic_ns(), time.time() * 1000)
    plan = plan_run(options, test, drawn, workload, command, started, clock)
    plan.save(folder / store.PLAN)
    stack.enter_context(store.going_on(folder))
    store.point_latest(root, folder)
    run_log = RunLog(progress, clock)
    if options.nemesis is None and not drawn.injections and not options.defect:
        run_log.unmet_goals["faults"] = schedules.too_short(registry.nemeses().values(), options.time_limit_s)
    supervisor = stack.enter_context(Supervisor())
    ports = stack.enter_context(PortBlock(cache, first_port=options.first_port))
    spec = _cluster_of(options, test)
    early: list[Pending] = []

    def start_spark() -> None:
        pending = begin_early(
            prepared.java, options.master, options.spark_conf, options.rate * options.time_limit_s
        )
        stack.callback(pending.close)
        early.append(pending)

    def facts() -> Facts:
        return run_log.facts(interrupt.came, drawn.unscheduled, _versions(options, prepared))

    with ExitStack() as up:
        with run_log.phase("cluster"):
            cluster = up.enter_context(LocalCluster(spec, folder, prepared, supervisor, ports.take))
        try:
            quiet = perform(
                test, Running(cluster, cluster.network, supervisor, interrupt), run_log, start_spark
            )
        except FencepostError as error:
            run_log.evidence_problems.append(f"the run failed: {error}")
            facts().save(folder / "facts.json")
            raise
    interrupt.stage = Stage.JUDGING
    _tabulate(folder, plan, run_log, Ends(quiet.leaders, quiet.high_watermarks), keep=options.keep == "logs")
    facts().save(folder / "facts.json")
    verdict = _judge(folder, run_log, early[0])
    facts().save(folder / "facts.json")
    _leave(folder, verdict, run_log)
    return verdict, folder


def _cluster_of(options: Options, test: Test) -> ClusterSpec:
    """The cluster that these options ask for, with a listener for each client slot."""
    return ClusterSpec(
        brokers=options.brokers,
        slots=("aside", *test.worker_slots),
        kafka=options.kafka,
        settings=options.settings,
        heap_mb=options.heap_mb,
    )


def _judge(folder: Path, run_log: RunLog, pending: "Pending") -> Verdict:
    """What the checkers say of the stored run, in the session that was begun for it."""
    with run_log.phase("checks"), interruptible(pending):
        return judge_one(pending.session(), open_evidence(str(folder), folder))


def _prepare(options: Options, cache: Path, say: Callable[[str], None]) -> "Prepared":
    """Find or fetch what a run needs, and hold the broker settings against those that Kafka knows."""
    from fencepost.spark import prepare_archive
    from harness.cluster.broker_settings import TOOL, check_settings, documented_settings
    from harness.environment.jvm import broker_command
    from harness.environment.prepare import prepare

    ready = prepare(options.kafka, options.java, options.toxiproxy, cache, say, mirror=options.mirror)

    def tool(folder: Path) -> Sequence[str]:
        return broker_command(ready.java, ready.kafka, main=TOOL, args=[], folder=folder)

    if options.settings:
        known = documented_settings(cache, ready.kafka.version, tool)
        for name in check_settings(options.settings, known):
            say(f"Kafka {ready.kafka.version} does not document the broker setting {name}")
    prepare_archive(ready.java, say)
    return ready


def _leave(folder: Path, verdict: Verdict, run_log: RunLog) -> None:
    """Write the verdict, and what people read of it."""
    (folder / "verdict.json").write_text(verdict.line() + "\n")
    with run_log.phase("report"):
        draw_report(folder, verdict, run_log.now_s())


def _tabulate(folder: Path, plan: Plan, run_log: RunLog, ends: Ends, *, keep: bool) -> None:
    """Turn what the run left into tables; the segment files go unless they are to be kept."""
    with run_log.phase("tables"):
        tabulate(folder, plan, ends)
        run_log.rows = rows_of(folder)
        run_log.unexpected_errors += unexpected_errors(folder)
        if not keep:
            _drop_segments(folder)


def _drop_segments(folder: Path) -> None:
    """The segment files stand in `log/` now; the brokers' own logs stay."""
    for data in (folder / "brokers").glob("*/data"):
        shutil.rmtree(data)


def _versions(options: Options, prepared: Any) -> dict[str, str]:
    from confluent_kafka import libversion

    return {
        "fencepost": version("fencepost"),
        "kafka": options.kafka,
        "java": f"{prepared.java.version} ({prepared.java.origin})",
        "librdkafka": libversion()[0],
        "confluent-kafka": version("confluent-kafka"),
        "pyspark": version("pyspark"),
    }
