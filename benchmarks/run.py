"""`make bench`: measure the cost of a run on this machine. It prints measurements, and asserts nothing.

- the time until a cluster is ready, compared with the start of a single bare broker;
- the time of a run beyond its time limit, phase by phase;
- the cost of the journal: the same loop with and without it, in turn, as a ratio;
- transactions and inputs per second at 1, 10, 100 and 1000 inputs per transaction.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from fencepost.runs.planning import plan_run
from fencepost.runs.programs import PROCESS
from harness.clients.interface import TRANSACTION_TIMEOUT_MS
from harness.cluster import ClusterSpec
from harness.cluster.local import LocalCluster
from harness.common.waiting import wait_for
from harness.environment.cache import Builder, cache_folder
from harness.environment.java import archive_flags, make_archive
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.processes.spawn import Supervisor
from harness.processes.specs import (
    ClientSpec,
    ConnectionSpec,
    MembershipSpec,
    PythonProgram,
    RunSpec,
    TransactionsSpec,
    WorkloadSpec,
)
from harness.results.run_metadata import RunMetadata
from harness.runner.processes import Processes, RunClock
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from workloads.model.workload import Workload
from workloads.registry import WORKLOADS

SHOP = WORKLOADS["shop"]
SIZES = (1, 10, 100, 1000)
GOAL_READY_S, GOAL_BEYOND_S, GOAL_RECORDING = 6.0, 30.0, 0.05


def main() -> None:
    """Measure the parts that the command line names, or all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", nargs="*", choices=["ready", "run", "recording", "rates", []], default=[])
    parts = parser.parse_args().part or ["ready", "recording", "rates", "run"]
    say(f"measuring {', '.join(parts)}")
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        if "ready" in parts:
            ready(Path(folder))
        if "recording" in parts or "rates" in parts:
            with bench_cluster(Path(folder) / "loop") as bench:
                if "recording" in parts:
                    recording(bench)
                if "rates" in parts:
                    rates(bench)
        if "run" in parts:
            run_with_faults(Path(folder))


def say(text: str) -> None:
    """Print a result."""
    print(text, flush=True)


class PipelineBench:
    """A cluster, and the loop of the first stage on new inputs."""

    def __init__(self, cluster: LocalCluster, supervisor: Supervisor, folder: Path) -> None:
        self.cluster = cluster
        self._supervisor, self._folder = supervisor, folder
        self._round = 0

    def loop(self, inputs: int, txn_size: int, *, record: bool) -> float:
        """Return the seconds that one worker takes for `inputs` inputs, from its first commit to its last."""
        self._round += 1
        workload = self._fresh(inputs)
        folder = self._folder / f"round-{self._round}"
        folder.mkdir()
        tag = f"bench-{self._round}"
        pipeline_spec = workload.spec(Options(workers=1), tag)
        spec = RunSpec(
            seed=self._round,
            compression="none",
            record_bytes=0,
            journaled=record,
            connection=ConnectionSpec(None, proxied=False),
            partition_counts=pipeline_spec.partition_counts,
            pipeline=WorkloadSpec(
                "shop",
                tag,
                defect=None,
                partitions_per_topic=0,
                database_addresses={},
                client=ClientSpec(),
                membership=MembershipSpec(),
                transactions=TransactionsSpec(txn_size, abort_share=0.0, timeout_ms=TRANSACTION_TIMEOUT_MS),
            ),
        )
        program = PythonProgram(PROCESS, spec)
        processes = Processes(
            self._supervisor,
            folder,
            RunClock(time.monotonic_ns(), 0),
            lambda _: self.cluster.bootstrap,
            ("w0",),
            pipeline_spec.stages,
            {"shop": program},
            program,
        )
        worker = processes.start_worker("shop", "shop-1")
        first: list[tuple[float, int]] = []

        def done() -> float | None:
            committed = worker.status.counts.inputs
            if committed and not first:
                first.append((time.monotonic(), committed))
            return time.monotonic() if committed >= inputs else None

        end_s = wait_for(
            done, f"{inputs} inputs of {tag}", 240, every_s=0.002, last_seen=lambda: worker.status
        )
        processes.stop([worker])
        first_commit_s, first_inputs = first[0]
        return (end_s - first_commit_s) * inputs / max(1, inputs - first_inputs)

    def _fresh(self, inputs: int) -> Workload:
        """Create new topics with this many inputs."""
        workload, tag = SHOP, f"bench-{self._round}"
        pipeline_spec = workload.spec(Options(), tag)
        self.cluster.create_topics(pipeline_spec.topics, 60)
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20}
        )
        feed = workload.tagged(tag).feeds()[0]
        rng = random.Random(self._round)
        for n in range(inputs):
            record = feed.make(rng, n)
            producer.produce(feed.topic, record.value, record.key)
            producer.poll(0)
        producer.flush(60)
        return workload


@contextmanager
def bench_cluster(folder: Path) -> Iterator[PipelineBench]:
    """Start a cluster without faults."""
    folder.mkdir()
    cache = cache_folder()
    prepared = prepare(Options().kafka, "auto", "auto", cache, say)
    with (
        Supervisor() as supervisor,
        PortBlock(cache) as ports,
        LocalCluster(ClusterSpec(endpoints=("w0",)), folder, prepared, supervisor, ports.take) as cluster,
    ):
        yield PipelineBench(cluster, supervisor, folder)


def ready(folder: Path, rounds: int = 3) -> None:
    """Measure the time until every broker of a new cluster knows all other brokers."""
    cache = cache_folder()
    prepared = prepare(Options().kafka, "auto", "auto", cache, say)
    with Builder() as builder:
        make_archive(prepared.java, prepared.kafka, cache, builder)
    flags = archive_flags(prepared.java, prepared.kafka, cache)
    prepared = replace(prepared, archive_flags=flags)
    test = plan_run(Options(seed=1), SHOP, Schedule(), folder)
    times = []
    for n in range(rounds):
        spec = ClusterSpec(endpoints=("harness-clients", *test.worker_endpoints))
        began_s = time.monotonic()
        with (
            Supervisor() as supervisor,
            PortBlock(cache) as ports,
            LocalCluster(spec, folder / f"ready-{n}", prepared, supervisor, ports.take),
        ):
            times.append(time.monotonic() - began_s)
    print_figure(f"ready cluster: {spread(times)} s", statistics.median(times), GOAL_READY_S, "s")


def recording(bench: PipelineBench, rounds: int = 4, inputs: int = 10_000) -> None:
    """Measure the same loop with and without its journal, in turn; print the ratio of each pair."""
    bench.loop(inputs, 100, record=True)  # warm up the brokers
    ratios = []
    for n in range(rounds):
        order = (True, False) if n % 2 else (False, True)
        took_s = {record: bench.loop(inputs, 100, record=record) for record in order}
        ratios.append(took_s[True] / took_s[False])
        say(f"  with {took_s[True]:.2f} s, without {took_s[False]:.2f} s: ratio {ratios[-1]:.3f}")
    cost = statistics.median(ratios) - 1
    print_figure(
        f"recording, 100 inputs a transaction: ratio {spread(ratios)}", cost, GOAL_RECORDING, "of the time"
    )


def rates(bench: PipelineBench) -> None:
    """Measure transactions and inputs per second of one worker, as a ratio to ten inputs per transaction."""
    measured = {}
    for size in SIZES:
        inputs = min(200 * size, 20_000)
        measured[size] = inputs / bench.loop(inputs, size, record=True)
    for size, inputs_a_second in measured.items():
        say(
            f"{size:5d} inputs a transaction: {inputs_a_second / size:7.1f} txn/s, "
            f"{inputs_a_second:8.0f} inputs/s, {inputs_a_second / measured[10]:.2f} of that at 10"
        )


def run_with_faults(folder: Path, time_limit_s: float = 30.0) -> None:
    """Measure a run beyond its time limit, phase by phase."""
    import fencepost

    began_s = time.monotonic()
    result = fencepost.run(
        time_limit=time_limit_s, nemesis="kill-worker", seed=1, store=str(folder / "store")
    )
    beyond_s = time.monotonic() - began_s - time_limit_s
    for phase in RunMetadata.load(Path(result.folder) / "metadata.json").phases:
        say(f"  {phase.name:12s} {phase.end_s - phase.start_s:6.2f} s")
    print_figure(
        f"a run of {time_limit_s:g} s ({result.valid}): {beyond_s:.1f} s beyond its limit",
        beyond_s,
        GOAL_BEYOND_S,
        "s",
    )


def spread(values: list[float]) -> str:
    """Return minimum, median and maximum as text."""
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


def print_figure(text: str, value: float, goal: float, unit: str) -> None:
    """Print a figure compared with its goal."""
    say(f"{text}; goal {goal:g} {unit}: {'met' if value < goal else f'missed by {value - goal:.2f}'}")


if __name__ == "__main__":
    main()
