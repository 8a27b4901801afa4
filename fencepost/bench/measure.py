"""One measurement after the other on a cluster that is up."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.bench.figures import Measurement
from fencepost.bench.inputs import PARTITIONS, EvenFeed, commit_end_offsets, fill_topic
from fencepost.bench.plan import BenchPoint, BenchRequest, MeasurementKind, describe
from fencepost.bench.shifts import STAGE, BenchShift, BenchSpec
from fencepost.bench.sight import read_latencies
from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_while_progressing
from harness.model.pipeline import StageSpec, TopicSpec
from harness.processes.control_line import Command, Counts
from harness.processes.program import Program
from harness.processes.spawn import Supervisor
from harness.processes.specs import ClientSpec, JvmSpec, ObserverSpec
from harness.runner.interrupt import Interrupt
from harness.runner.member import RunProcess
from harness.runner.processes import Processes, RunClock
from workloads.loop.program import PythonProgram

PROCESS = "fencepost.bench.process"
FILLED = "bench-filled"
"""The input of every measurement of throughput; each reads it from its start, in a group of its own."""
LIVE = "bench-live"
"""The input where latency is measured: created at a rate."""
SEEN = "bench-seen"
FILLED_A_WORKER = 40_000
"""Inputs that are there for each worker, and once more: more than they take within a slice."""
PATIENCE_S = 30.0
FEWEST_BATCHES = 3
"""A slice is as long as it has to be for so many, at most `STRETCHED` times what was asked for."""
STRETCHED = 4.0
LATENCY_SHARE = 0.4
"""Of what transactions take when saturated: the rate at which latency is measured, for every delivery."""
MOST_RATE = 100.0
"""Each input is replicated by itself: more of them would measure a machine that is busy with its inputs."""
LEAST_RATE = 2.0
FEWEST_INPUTS = 40
"""Of a measurement of latency; for them a slice may be longer by half."""
LIVE_PARTITIONS = 3
CONFIG: Mapping[str, str] = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SHORT: Mapping[str, str] = {**CONFIG, "retention.bytes": "67108864", "segment.bytes": "33554432"}
"""Of output topics: nobody reads what is old, and a bench writes gigabytes."""


Count = tuple[float, int, int]
"""When it was taken, the inputs that were committed until then, and the batches."""


class BenchInterrupted(Exception):
    """The user has asked for the end."""


@dataclass(frozen=True)
class BenchSite:
    """Where a bench takes place."""

    cluster: Cluster
    supervisor: Supervisor
    interrupt: Interrupt
    folder: Path  # takes what the processes write, and goes with the bench
    jvm: JvmSpec | None = None  # what the JVM in a worker of the Java client is started from


def output_topic(partitions: int) -> str:
    """The output topic that has so many partitions."""
    return f"bench-out-{partitions}"


class Bench:
    """The topics, the processes, and the measurements in the order of their numbers, from 1."""

    def __init__(self, asked: BenchRequest, order: Sequence[BenchPoint], site: BenchSite) -> None:
        self._asked, self._order, self._site = asked, order, site
        self._done = 0
        self._rates: dict[BenchPoint, float] = {}
        self._taken: list[Measurement] = []
        self._members: dict[str, list[RunProcess]] = {}
        for name in ("steps", "journals"):
            (site.folder / name).mkdir()
        self._processes = Processes(
            site.supervisor,
            site.folder,
            RunClock(time.monotonic_ns(), time.time() * 1000),
            lambda _: site.cluster.bootstrap,
            [f"s{n}" for n in range(len(asked.clients) * asked.most_workers)],
            [StageSpec(f"{STAGE}-{client}", (FILLED,)) for client in asked.clients],
            {f"{STAGE}-{client}": self._program(client) for client in asked.clients},
            PythonProgram(PROCESS, BenchSpec(ClientSpec(), site.folder / "steps", ())),
        )

    def open(self) -> None:
        """Make the topics, write the input, and start every process."""
        topics = [
            TopicSpec(FILLED, PARTITIONS, 3, CONFIG),
            TopicSpec(LIVE, LIVE_PARTITIONS, 3, CONFIG),
            TopicSpec(SEEN, self._asked.partitions[0], 3, SHORT),
            *(TopicSpec(output_topic(count), count, 3, SHORT) for count in self._asked.partitions),
        ]
        self._site.cluster.create_topics(topics, 60.0)
        count = FILLED_A_WORKER * (1 + self._asked.most_workers)
        fill_topic(self._site.cluster.bootstrap, FILLED, count, self._check_cut)
        for client in self._asked.clients:
            self._members[client] = [
                self._processes.start_worker(f"{STAGE}-{client}", f"{client}-{n}")
                for n in range(self._asked.most_workers)
            ]
        seen_partitions = tuple((SEEN, n) for n in range(self._asked.partitions[0]))
        self._reader = self._processes.start_other("reader", "reader", ObserverSpec(seen_partitions))
        self._processes.await_ready([member for own in self._members.values() for member in own])
        self._processes.await_ready([self._reader])
        self._inputs = EvenFeed(self._site.cluster.bootstrap, LIVE, self._check_cut)

    def measure(self, number_of_round: int | None) -> Measurement:
        """The next measurement; None: it is part of the warm-up, and nothing follows from it.

        Raises `BenchInterrupted`, or `EnvironmentFailure` where a process has ended.
        """
        point = self._order[self._done]
        self._done += 1
        workers = self._members[point.client][: point.workers]
        if point.kind is MeasurementKind.LATENCY:
            commit_end_offsets(
                self._site.cluster.bootstrap, self._shift(self._done, point).group, LIVE, LIVE_PARTITIONS
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
            lambda: all(member.status.reached >= self._done for member in workers),
            "the workers to be relieved",
            workers,
        )
        steps = json.loads(
            (self._site.folder / "steps" / f"{self._done}-{workers[0].journal}.json").read_text()
        )
        failed = sum(
            counts.aborted + counts.failed + counts.info
            for counts in (member.status.counts for member in workers)
        )
        measured = Measurement(point, number_of_round or 0, failed=failed, steps_ms=steps, **own)
        if number_of_round is not None:
            self._taken.append(measured)
        return measured

    # -- throughput -------------------------------------------------------------------------

    def _throughput(self, point: BenchPoint, workers: Sequence[RunProcess]) -> dict[str, Any]:
        """From one report of a commit to another, all workers together."""
        self._until(lambda: all(_done(m)[1] >= 2 for m in workers), "the first commits", workers)
        first = last = (time.monotonic(), *_sum(workers))
        slice_s = self._asked.slice_s
        while not self._enough(first, last, workers):
            known = last[2]

            def more(known: int = known) -> bool:
                return _sum(workers)[1] > known or _over(first[0], STRETCHED * slice_s)

            self._until(more, "a commit", workers, 0.004)
            if _sum(workers)[1] > known:
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
        """Whether the slice is over, and holds enough batches to tell a rate."""
        enough = last[2] - first[2] >= FEWEST_BATCHES * len(workers)
        stretched_s = self._asked.slice_s * (1.0 if enough else STRETCHED)
        return _over(first[0], stretched_s)

    # -- latency ----------------------------------------------------------------------------

    def _rate(self, point: BenchPoint) -> float:
        """Of inputs a second: a share of what this client's transactions take, the same in every round."""
        if point.group not in self._rates:
            taken = [
                one.inputs_per_s
                for one in self._taken
                if one.point.kind is MeasurementKind.THROUGHPUT
                and (one.point.client, one.point.txn_size) == (point.client, point.txn_size)
                and one.point.delivery.transactional
                and one.point.journal
            ]
            self._rates[point.group] = max(LEAST_RATE, min(MOST_RATE, LATENCY_SHARE * min(taken)))
        return self._rates[point.group]

    def _latency(self, point: BenchPoint, workers: Sequence[RunProcess]) -> dict[str, Any]:
        """Create inputs at a rate, and wait until each of them was seen. The first ones warm the pipeline up."""
        rate = self._rate(point)
        self._feed(max(3, round(rate / 4)), rate, 0, workers)
        usual = rate * self._asked.latency_slice_s
        count = max(1, round(max(usual, min(FEWEST_INPUTS, 1.5 * usual))))
        self._feed(count, rate, self._done, workers)
        path = self._site.folder / "journals" / "reader.jsonl"
        latencies = [(at_ns - from_ns) / 1e6 for from_ns, at_ns in read_latencies(path, self._done)]
        return {"rate": rate, "latencies_ms": latencies}

    def _feed(self, count: int, rate: float, measurement: int, workers: Sequence[RunProcess]) -> None:
        """Create so many inputs, and wait until as many outputs more were seen."""
        before = self._reader.status.given
        self._inputs.feed(count, rate, measurement)
        self._until(
            lambda: self._reader.status.given >= before + count,
            "every input's output to be seen",
            [*workers, self._reader],
        )

    # -- what they share --------------------------------------------------------------------

    def _program(self, client: str) -> Program:
        """What runs in the workers of a client."""
        shifts = tuple(self._shift(n, p) for n, p in enumerate(self._order, 1) if p.client == client)
        jvm = self._site.jvm if client == "java" else None
        return PythonProgram(
            PROCESS, BenchSpec(ClientSpec(client, jvm=jvm), self._site.folder / "steps", shifts)
        )

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
        """Wait while something gets on; raises `BenchInterrupted`, or `EnvironmentFailure` for a process that ended."""

        def probe() -> bool:
            self._check_cut()
            for member in members:
                if not member.alive:
                    words = member.last_output()
                    raise EnvironmentFailure(f"{member.journal} of the bench ended by itself: {words}")
            return holds()

        def progress() -> object:
            return [(member.status.counts, member.status.given) for member in members]

        def member_states() -> list[str]:
            return [f"{member.journal}: {member.status}" for member in members]

        point = describe(self._order[self._done - 1]) if self._done else "at the start"
        wait_while_progressing(
            probe, progress, f"{awaited} ({point})", PATIENCE_S, every_s=every_s, last_seen=member_states
        )

    def _check_cut(self) -> None:
        if self._site.interrupt.requested:
            raise BenchInterrupted


def _done(member: RunProcess) -> tuple[int, int]:
    """Inputs and batches that a worker has committed in this shift."""
    return member.status.counts.inputs, member.status.counts.committed


def _sum(members: Sequence[RunProcess]) -> tuple[int, int]:
    inputs, batches = zip(*map(_done, members), strict=True)
    return sum(inputs), sum(batches)


def _over(begun_s: float, length_s: float) -> bool:
    return time.monotonic() - begun_s >= length_s
