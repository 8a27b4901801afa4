"""Make one measurement after the other on a running cluster."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.exactly_once.figures import Measurement
from benchmarks.exactly_once.inputs import PARTITIONS, EvenFeed, commit_end_offsets, fill_topic
from benchmarks.exactly_once.outputs import read_latencies
from benchmarks.exactly_once.plan import BenchPoint, BenchRequest, MeasurementKind, describe
from benchmarks.exactly_once.worker_process import STAGE, BenchShift, BenchSpec
from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_while_progressing
from harness.model.pipeline import StageSpec, TopicSpec
from harness.processes.messages import Command, Counts
from harness.processes.spawn import Supervisor
from harness.processes.specs import ClientSpec, JvmSpec, ObserverSpec, Program, PythonProgram
from harness.runner.processes import Processes, RunClock
from harness.runner.run_process import RunProcess

PROCESS = "benchmarks.exactly_once.process"
ROOT = Path(__file__).parents[2]
FILLED = "bench-filled"
"""Input topic for throughput. Each measurement reads it from the start with its own group."""
LIVE = "bench-live"
"""Input topic for latency. Its inputs are created at a rate during the measurement."""
SEEN = "bench-seen"
FILLED_A_WORKER = 40_000
"""Inputs in the topic for each worker. One more such share is added, so that no measurement reads all of them."""
PATIENCE_S = 30.0
FEWEST_BATCHES = 3
"""A measurement lasts until there are this many batches, but at most `STRETCHED` times its planned duration."""
STRETCHED = 4.0
LATENCY_SHARE = 0.4
"""Latency is measured at this share of the saturated throughput with transactions, for every delivery."""
MOST_RATE = 100.0
"""Each input is replicated separately. At a higher rate, the inputs themselves would load the machine."""
LEAST_RATE = 2.0
FEWEST_INPUTS = 40
"""Desired number of inputs in a measurement of latency. To have them, it may last 1.5 times as long as planned."""
LIVE_PARTITIONS = 3
CONFIG: Mapping[str, str] = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SHORT: Mapping[str, str] = {**CONFIG, "retention.bytes": "67108864", "segment.bytes": "33554432"}
"""Settings of output topics. They keep little, because a bench writes gigabytes and nothing reads old records."""


Count = tuple[float, int, int]
"""A time in seconds, and the number of inputs and batches that were committed until then."""


@dataclass(frozen=True)
class BenchSite:
    """The resources of a bench: the cluster, processes and a scratch folder."""

    cluster: Cluster
    supervisor: Supervisor
    folder: Path  # for files of the processes; removed at the end
    jvm: JvmSpec | None = None  # for workers with the Java client


def output_topic(partitions: int) -> str:
    """The name of the output topic with this number of partitions."""
    return f"bench-out-{partitions}"


class Bench:
    """Makes the topics, starts the processes, and takes the measurements in the given order, numbered from 1."""

    def __init__(self, request: BenchRequest, order: Sequence[BenchPoint], site: BenchSite) -> None:
        self._request, self._order, self._site = request, order, site
        self._number = 0
        self._rates: dict[BenchPoint, float] = {}
        self._measurements: list[Measurement] = []
        self._members: dict[str, list[RunProcess]] = {}
        for name in ("steps", "journals"):
            (site.folder / name).mkdir()
        self._processes = Processes(
            site.supervisor,
            site.folder,
            RunClock(time.monotonic_ns(), time.time() * 1000),
            lambda _: site.cluster.bootstrap,
            [f"s{n}" for n in range(len(request.clients) * request.most_workers)],
            [StageSpec(f"{STAGE}-{client}", (FILLED,)) for client in request.clients],
            {f"{STAGE}-{client}": self._program(client) for client in request.clients},
            _program(BenchSpec(ClientSpec(), site.folder / "steps", ())),
        )

    def open(self) -> None:
        """Create the topics, write the inputs, and start all processes."""
        topics = [
            TopicSpec(FILLED, PARTITIONS, 3, CONFIG),
            TopicSpec(LIVE, LIVE_PARTITIONS, 3, CONFIG),
            TopicSpec(SEEN, self._request.partitions[0], 3, SHORT),
            *(TopicSpec(output_topic(count), count, 3, SHORT) for count in self._request.partitions),
        ]
        self._site.cluster.create_topics(topics, 60.0)
        count = FILLED_A_WORKER * (1 + self._request.most_workers)
        fill_topic(self._site.cluster.bootstrap, FILLED, count)
        for client in self._request.clients:
            self._members[client] = [
                self._processes.start_worker(f"{STAGE}-{client}", f"{client}-{n}")
                for n in range(self._request.most_workers)
            ]
        seen_partitions = tuple((SEEN, n) for n in range(self._request.partitions[0]))
        self._reader = self._processes.start_harness_process(
            "reader", "reader", ObserverSpec(seen_partitions)
        )
        self._processes.await_ready([member for own in self._members.values() for member in own])
        self._processes.await_ready([self._reader])
        self._inputs = EvenFeed(self._site.cluster.bootstrap, LIVE)

    def measure(self, number_of_round: int | None) -> Measurement:
        """Take the next measurement. Raises `EnvironmentFailure` if a process has ended.

        Args:
            number_of_round: None for a measurement of the warm-up, which is not used.
        """
        point = self._order[self._number]
        self._number += 1
        workers = self._members[point.client][: point.workers]
        if point.kind is MeasurementKind.LATENCY:
            commit_end_offsets(
                self._site.cluster.bootstrap, self._shift(self._number, point).group, LIVE, LIVE_PARTITIONS
            )
        for member in workers:
            member.status.counts = Counts()
            member.send(Command(go=True))
        try:
            own = (
                self._latency(point, workers)
                if point.kind is MeasurementKind.LATENCY
                else self._throughput(point, workers)
            )
        finally:
            for member in workers:
                member.send(Command(replaced=True))
        self._until(
            lambda: all(member.status.reached >= self._number for member in workers),
            "the workers to finish the measurement",
            workers,
        )
        steps = json.loads(
            (self._site.folder / "steps" / f"{self._number}-{workers[0].journal}.json").read_text(
                encoding="utf-8"
            )
        )
        failed = sum(
            counts.aborted + counts.failed + counts.info
            for counts in (member.status.counts for member in workers)
        )
        measured = Measurement(point, number_of_round or 0, failed=failed, steps_ms=steps, **own)
        if number_of_round is not None:
            self._measurements.append(measured)
        return measured

    # -- throughput -------------------------------------------------------------------------

    def _throughput(self, point: BenchPoint, workers: Sequence[RunProcess]) -> dict[str, Any]:
        """Measure the throughput of all workers together, between two reports of commits."""
        self._until(lambda: all(_committed(m)[1] >= 2 for m in workers), "the first commits", workers)
        first = last = (time.monotonic(), *_sum(workers))
        slice_s = self._request.slice_s
        while not self._enough(first, last, workers):
            batches = last[2]

            def more(batches: int = batches) -> bool:
                return _sum(workers)[1] > batches or _over(first[0], STRETCHED * slice_s)

            self._until(more, "a commit", workers, 0.004)
            if _sum(workers)[1] > batches:
                last = (time.monotonic(), *_sum(workers))
        lasted_s = last[0] - first[0]
        if lasted_s <= 0:
            raise EnvironmentFailure(
                f"{describe(point)} ({point.delivery}): nothing was committed within {STRETCHED * slice_s:g} s"
            )
        return {
            "inputs_per_s": (last[1] - first[1]) / lasted_s,
            "txns_per_s": (last[2] - first[2]) / lasted_s,
        }

    def _enough(self, first: Count, last: Count, workers: Sequence[RunProcess]) -> bool:
        """Return True if the measurement has lasted long enough and has enough batches."""
        has_batches = last[2] - first[2] >= FEWEST_BATCHES * len(workers)
        duration_s = self._request.slice_s * (1.0 if has_batches else STRETCHED)
        return _over(first[0], duration_s)

    # -- latency ----------------------------------------------------------------------------

    def _rate(self, point: BenchPoint) -> float:
        """Inputs per second for latency: a share of the throughput of this client with transactions.

        It is the same in every round.
        """
        if point.group not in self._rates:
            throughputs = [
                measurement.inputs_per_s
                for measurement in self._measurements
                if measurement.point.kind is MeasurementKind.THROUGHPUT
                and (measurement.point.client, measurement.point.txn_size) == (point.client, point.txn_size)
                and measurement.point.delivery.transactional
                and measurement.point.journal
            ]
            self._rates[point.group] = max(LEAST_RATE, min(MOST_RATE, LATENCY_SHARE * min(throughputs)))
        return self._rates[point.group]

    def _latency(self, point: BenchPoint, workers: Sequence[RunProcess]) -> dict[str, Any]:
        """Create inputs at a rate, and wait until all outputs were read. The first inputs warm up the pipeline."""
        rate = self._rate(point)
        self._feed(max(3, round(rate / 4)), rate, 0, workers)
        usual = rate * self._request.latency_slice_s
        count = max(1, round(max(usual, min(FEWEST_INPUTS, 1.5 * usual))))
        self._feed(count, rate, self._number, workers)
        path = self._site.folder / "journals" / "reader.jsonl"
        latencies = [(at_ns - from_ns) / 1e6 for from_ns, at_ns in read_latencies(path, self._number)]
        return {"rate": rate, "latencies_ms": latencies}

    def _feed(self, count: int, rate: float, measurement: int, workers: Sequence[RunProcess]) -> None:
        """Create `count` inputs, and wait until the reader has read as many new outputs."""
        before = self._reader.status.records_read
        self._inputs.feed(count, rate, measurement)
        self._until(
            lambda: self._reader.status.records_read >= before + count,
            "the outputs of all inputs",
            [*workers, self._reader],
        )

    # -- shared by both ---------------------------------------------------------------------

    def _program(self, client: str) -> Program:
        """The program of the workers with this client."""
        shifts = tuple(self._shift(n, p) for n, p in enumerate(self._order, 1) if p.client == client)
        jvm = self._site.jvm if client == "java" else None
        return _program(BenchSpec(ClientSpec(client, jvm=jvm), self._site.folder / "steps", shifts))

    def _shift(self, number: int, point: BenchPoint) -> BenchShift:
        latency = point.kind is MeasurementKind.LATENCY
        return BenchShift(
            number=number,
            delivery=point.delivery,
            txn_size=point.txn_size,
            reads=LIVE if latency else FILLED,
            writes=SEEN if latency else output_topic(point.partitions),
            journal=point.journal,
            eager=latency,
            workers=point.workers,
        )

    def _until(
        self, holds: Callable[[], bool], awaited: str, members: Sequence[RunProcess], every_s: float = 0.01
    ) -> None:
        """Wait until `holds` is true, as long as there is progress.

        Raises `EnvironmentFailure` if a process ended or nothing progresses.
        """

        def probe() -> bool:
            for member in members:
                if not member.alive:
                    words = member.last_output()
                    raise EnvironmentFailure(f"{member.journal} of the bench ended by itself: {words}")
            return holds()

        def progress() -> object:
            return [(member.status.counts, member.status.records_read) for member in members]

        def member_states() -> list[str]:
            return [f"{member.journal}: {member.status}" for member in members]

        point = describe(self._order[self._number - 1]) if self._number else "at the start"
        wait_while_progressing(
            probe, progress, f"{awaited} ({point})", PATIENCE_S, every_s=every_s, last_seen=member_states
        )


def _program(spec: BenchSpec) -> Program:
    """A process of the benchmark, which is no part of the installed package."""
    return PythonProgram(PROCESS, spec, {"PYTHONPATH": str(ROOT)})


def _committed(member: RunProcess) -> tuple[int, int]:
    """Inputs and batches that a worker has committed in this measurement."""
    return member.status.counts.inputs, member.status.counts.committed


def _sum(members: Sequence[RunProcess]) -> tuple[int, int]:
    inputs, batches = zip(*map(_committed, members), strict=True)
    return sum(inputs), sum(batches)


def _over(start_s: float, length_s: float) -> bool:
    return time.monotonic() - start_s >= length_s
