"""Run a bench: start a cluster, take rounds of measurements, and write the figures and the page."""

import json
import os
import platform
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from fencepost.bench.document import as_json
from fencepost.bench.figures import Measurement, quantile
from fencepost.bench.inputs import PARTITIONS, VALUE_BYTES
from fencepost.bench.measure import LATENCY_SHARE, Bench, BenchInterrupted, BenchSite
from fencepost.bench.plan import BenchRequest, MeasurementKind, describe, order_round
from fencepost.runs.preparing import prepare_cluster
from fencepost.runs.programs import jvm_spec
from harness.cluster import ClusterSpec
from harness.cluster.config import BROKER_SETTINGS, replication_settings
from harness.cluster.kinds.kind import ClusterParts
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.secrets import redact_text
from harness.processes.spawn import Supervisor
from harness.processes.specs import JvmSpec
from harness.record import run_tables as store
from harness.runner.interrupt import Interrupt, InterruptPhase
from harness.runner.processes import HARNESS_ENDPOINT
from harness.runner.progress import Progress
from harness.settings.options import Options
from reports.html.bench import draw

if TYPE_CHECKING:
    from harness.environment import PreparedEnvironment

NAME = "bench"
"""Name of the folder in the store."""
FIGURES, PAGE = "bench.json", "bench.html"
RETENTION: Mapping[str, str] = {"log.retention.check.interval.ms": "5000"}
SHOWN_SETTINGS = (
    *("min.insync.replicas", "replica.fetch.wait.max.ms", "num.io.threads", "num.network.threads"),
    *("transaction.state.log.num.partitions", "offsets.topic.num.partitions"),
)
"""Broker settings that the page shows, in addition to those of the user."""


@dataclass(frozen=True)
class BenchResult:
    """The result of a bench."""

    figures: Mapping[str, Any]
    folder: Path

    @property
    def page(self) -> Path:
        """The page with its plots."""
        return self.folder / PAGE


def bench(options: Options, request: BenchRequest, progress: Progress, command: str) -> BenchResult:
    """Run a bench and write its page. Raises KeyboardInterrupt if it is interrupted before the first measurement."""
    from harness.environment.cache import cache_folder

    progress.phase("preparing")
    cache = cache_folder()
    prepared = prepare_cluster(options, cache, progress.say, clients=request.clients)
    started = datetime.now(UTC)
    folder = store.create_run_folder(Path(options.store), NAME, started)
    measurements: list[Measurement] = []

    def write(cut_short: str) -> BenchResult:
        context = _run_context(options, prepared, started, command)
        figures = as_json(request, measurements, cut_short=cut_short, context=context)
        (folder / "journals").rmdir()
        (folder / FIGURES).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (folder / PAGE).write_text(draw(figures), encoding="utf-8")
        return BenchResult(figures, folder)

    try:
        interrupted = _measure(options, request, prepared, cache, folder, measurements, progress)
        if not measurements:
            raise KeyboardInterrupt
    except BaseException as error:
        if measurements:
            write(redact_text(str(error)) or "interrupted")
            progress.say(f"the measurements until then: {folder / PAGE}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    progress.phase("drawing")
    return write("interrupted" if interrupted else "")


def _measure(
    options: Options,
    request: BenchRequest,
    prepared: "PreparedEnvironment",
    cache: Path,
    folder: Path,
    measurements: list[Measurement],
    progress: Progress,
) -> bool:
    """Start a cluster, and append to `measurements`. Returns whether the user interrupted the bench."""
    from harness.environment.doctor import DISK_MB, memory_mb
    from harness.environment.ports import PortBlock
    from harness.environment.resources import require
    from harness.processes.guardian import sweep_leftovers

    require(memory_mb(options.brokers), DISK_MB, folder)
    for leftover in sweep_leftovers():
        progress.say(f"ended what an earlier run had left: {leftover}")
    assert options.seed is not None
    rounds = (order_round(request.points(), n, options.seed) for n in range(request.rounds))
    order = [*request.warm_up(), *chain.from_iterable(rounds)]
    with Interrupt() as interrupt, ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor())
        ports = stack.enter_context(PortBlock(cache, first_port=options.first_port))
        scratch = supervisor.scratch_folder(NAME)
        progress.phase("cluster")
        parts = ClusterParts(_spec(options), scratch, prepared, supervisor, ports.take)
        cluster = stack.enter_context(CLUSTERS[options.cluster].open(parts))
        interrupt.phase = InterruptPhase.MEASURING
        site = BenchSite(cluster, supervisor, interrupt, scratch, _jvm(request, scratch, prepared))
        try:
            _rounds(Bench(request, order, site), request, measurements, progress)
        except BenchInterrupted:
            return True
    return False


def _rounds(work: Bench, request: BenchRequest, measurements: list[Measurement], progress: Progress) -> None:
    progress.phase("input")
    work.open()
    progress.phase("warm-up")
    for _ in request.warm_up():
        work.measure(None)
    count = len(request.points())
    start_s = time.monotonic()
    for n in range(request.rounds):
        progress.phase(f"round {n + 1} of {request.rounds}")
        for _ in range(count):
            measurement = work.measure(n)
            measurements.append(measurement)
            left_s = (
                (time.monotonic() - start_s)
                / len(measurements)
                * (request.rounds * count - len(measurements))
            )
            progress.say(
                f"{len(measurements)}/{request.rounds * count}  {_line(measurement)}  ({left_s:.0f} s left)"
            )


def _line(measurement: Measurement) -> str:
    point = measurement.point
    name = f"{point.delivery.value}, {describe(point)}" + ("" if point.journal else ", without journal")
    if point.kind is MeasurementKind.THROUGHPUT:
        return f"{name}: {measurement.inputs_per_s:,.0f} inputs/s"
    median = quantile(measurement.latencies_ms, "p50")
    return f"{name}: median {median:.1f} ms at {measurement.rate:.0f}/s" if median else f"{name}: no outputs"


def _spec(options: Options) -> ClusterSpec:
    return ClusterSpec(
        brokers=options.brokers,
        endpoints=(HARNESS_ENDPOINT,),
        kafka=options.kafka,
        settings={**RETENTION, **options.settings},
        heap_mb=options.heap_mb,
        transaction_version=options.transaction_version,
    )


def _jvm(request: BenchRequest, folder: Path, prepared: "PreparedEnvironment") -> JvmSpec | None:
    return jvm_spec("java", folder, prepared) if "java" in request.clients else None


def _run_context(
    options: Options, prepared: "PreparedEnvironment", started: datetime, command: str
) -> dict[str, Any]:
    """Describe the machine, the versions and the settings."""
    from confluent_kafka import libversion

    redacted = options.redacted()
    defaults = {**BROKER_SETTINGS, **replication_settings(options.brokers)}
    return {
        "started": started.isoformat(timespec="seconds"),
        "seed": options.seed,
        "command": command,
        "machine": {
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "system": f"{platform.system()} {platform.machine()}",
            "load": [round(load, 2) for load in os.getloadavg()],
        },
        "versions": {
            "fencepost": version("fencepost"),
            "kafka": options.kafka,
            "java": prepared.java.version,
            "librdkafka": libversion()[0],
            "confluent-kafka": version("confluent-kafka"),
            "python": platform.python_version(),
        },
        "cluster": {
            "brokers": options.brokers,
            "heap_mb": options.heap_mb,
            "replication": int(replication_settings(options.brokers)["default.replication.factor"]),
            "input_partitions": PARTITIONS,
            "record_bytes": VALUE_BYTES,
            "latency_share": LATENCY_SHARE,
            "settings": {**{name: defaults[name] for name in SHOWN_SETTINGS}, **redacted.settings},
        },
    }
