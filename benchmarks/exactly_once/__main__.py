"""Measure what exactly-once costs on one cluster, as ratios to at-least-once (docs/results/exactly-once.md).

At-least-once, idempotent and transactional pipelines take turns. The benchmark measures the throughput of each when it
is saturated. At a lower rate, it measures the time from an input to its visible output. Ctrl-C ends it early, and
prints the measurements until then.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import libversion

from benchmarks.exactly_once.document import as_json
from benchmarks.exactly_once.figures import Measurement, quantile
from benchmarks.exactly_once.inputs import PARTITIONS, VALUE_BYTES
from benchmarks.exactly_once.measure import LATENCY_SHARE, Bench, BenchSite
from benchmarks.exactly_once.plan import QUICK, BenchRequest, MeasurementKind, describe, order_round
from fencepost.runs.programs import jvm_spec
from harness.cluster import ClusterSpec
from harness.cluster.config import BROKER_SETTINGS, replication_settings
from harness.cluster.local import LocalCluster
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.processes.guardian import sweep_leftovers
from harness.processes.spawn import Supervisor
from harness.runner.processes import HARNESS_ENDPOINT

BROKERS = 3
RETENTION: Mapping[str, str] = {"log.retention.check.interval.ms": "5000"}
SHOWN_SETTINGS = (
    *("min.insync.replicas", "replica.fetch.wait.max.ms", "num.io.threads", "num.network.threads"),
    *("transaction.state.log.num.partitions", "offsets.topic.num.partitions"),
)


def main() -> None:
    """Measure, and print the ratios, or everything as JSON."""
    words = _parser().parse_args()
    request = QUICK if words.quick else BenchRequest()
    given = {
        name: value
        for name in ("clients", "sizes", "partitions", "workers", "rounds")
        if (value := getattr(words, name))
    }
    request = replace(request, **given)
    say(f"{request.rounds * len(request.points())} measurements, about {request.planned_s / 60:.0f} minutes")
    measurements: list[Measurement] = []
    cut_short = ""
    try:
        _measure(request, words.seed, measurements)
    except KeyboardInterrupt:
        if not measurements:
            raise
        cut_short = "interrupted"
    figures = as_json(request, measurements, cut_short=cut_short, context=_context(words.seed))
    print(json.dumps(figures, indent=1) if words.json else "\n".join(_ratios(figures)))


def _parser() -> argparse.ArgumentParser:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(word) for word in text.split(","))

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exactly_once",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one client, fewer sizes: under three minutes")
    parser.add_argument("--rounds", type=int, help="how many times to measure each point (3)")
    parser.add_argument(
        "--client", dest="clients", type=lambda text: tuple(text.split(",")), help="librdkafka,java"
    )
    parser.add_argument(
        "--txn-size", dest="sizes", type=numbers, help="inputs in a transaction: 1,10,100,1000,10000"
    )
    parser.add_argument(
        "--partitions", type=numbers, help="of the output topic; the first is used while others vary: 6,1,24"
    )
    parser.add_argument("--workers", type=numbers, help="the first is used while others vary: 1,3")
    parser.add_argument("--seed", type=int, default=1, help="decides which point comes first (1)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    return parser


def _measure(request: BenchRequest, seed: int, measurements: list[Measurement]) -> None:
    """Start a cluster, and append to `measurements`."""
    cache = cache_folder()
    prepared = prepare(DEFAULT_KAFKA, "auto", "auto", cache, say)
    for leftover in sweep_leftovers():
        say(f"ended what an earlier run had left: {leftover}")
    rounds = (order_round(request.points(), n, seed) for n in range(request.rounds))
    order = [*request.warm_up(), *chain.from_iterable(rounds)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-bench-")))
        supervisor = stack.enter_context(Supervisor())
        ports = stack.enter_context(PortBlock(cache))
        spec = ClusterSpec(brokers=BROKERS, endpoints=(HARNESS_ENDPOINT,), settings=RETENTION)
        cluster = stack.enter_context(LocalCluster(spec, folder, prepared, supervisor, ports.take))
        jvm = jvm_spec("java", folder, prepared) if "java" in request.clients else None
        work = Bench(request, order, BenchSite(cluster, supervisor, folder, jvm))
        work.open()
        for _ in request.warm_up():
            work.measure(None)
        count = len(request.points())
        for n in range(request.rounds):
            for _ in range(count):
                measurements.append(work.measure(n))
                say(f"{len(measurements)}/{request.rounds * count}  {_line(measurements[-1])}")


def _line(measurement: Measurement) -> str:
    point = measurement.point
    name = f"{point.delivery.value}, {describe(point)}" + ("" if point.journal else ", without journal")
    if point.kind is MeasurementKind.THROUGHPUT:
        return f"{name}: {measurement.inputs_per_s:,.0f} inputs/s"
    median = quantile(measurement.latencies_ms, "p50")
    return f"{name}: median {median:.1f} ms at {measurement.rate:.0f}/s" if median else f"{name}: no outputs"


def _ratios(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each ratio, and a last line if the benchmark was interrupted."""
    for point in figures["points"]:
        name = f"{point['delivery']}{'' if point['journal'] else ' without journal'}, {point['where']}"
        for figure, ratio in point["ratios"].items():
            base = ratio["to"]["delivery"] if point["journal"] else "the same with its journal"
            yield (
                f"{name}: {figure} x {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) of {base}"
            )
    if figures["cut_short"]:
        made, planned = (figures["measurements"][name] for name in ("made", "planned"))
        yield f"interrupted: {made} of {planned} measured"


def _context(seed: int) -> dict[str, Any]:
    """Describe the machine, the versions and the settings."""
    defaults = {**BROKER_SETTINGS, **replication_settings(BROKERS)}
    return {
        "seed": seed,
        "machine": {
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "system": f"{platform.system()} {platform.machine()}",
            "load": [round(load, 2) for load in os.getloadavg()],
        },
        "versions": {
            **{name: version(name) for name in ("fencepost", "confluent-kafka")},
            "kafka": DEFAULT_KAFKA,
            "librdkafka": libversion()[0],
            "python": platform.python_version(),
        },
        "cluster": {
            "brokers": BROKERS,
            "input_partitions": PARTITIONS,
            "record_bytes": VALUE_BYTES,
            "latency_share": LATENCY_SHARE,
            "settings": {name: defaults[name] for name in SHOWN_SETTINGS},
        },
    }


_BEGAN_S = time.monotonic()


def say(text: str) -> None:
    """Print progress."""
    print(f"[{time.monotonic() - _BEGAN_S:6.1f} s] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
