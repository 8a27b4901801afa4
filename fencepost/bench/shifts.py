"""A worker process of a bench: it works one shift after the other, each as another pipeline.

In a shift it is the worker of a run: the same loop, client, journal and control line. It outlives its shifts, so that
a measurement does not begin with the start of an interpreter or of a cold JVM.
"""

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fencepost.bench.stopwatch import CONSUMER, PRODUCER, Stopwatch
from harness.clients.interface import Client, GroupConsumer, ProducerClient
from harness.clients.records import ClientRecord
from harness.model.expectation import InputRecord
from harness.processes.control_line import Report
from harness.processes.specs import ClientSpec, ProcessSpec
from harness.record.journal import Journal, NoJournal
from harness.roles.control import Control
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import RIGHT, Delivery
from workloads.model.workload import Output, WorkloadStage

T = TypeVar("T")

STAGE = "bench"


@dataclass(frozen=True)
class BenchShift:
    """What a worker does until it is relieved."""

    number: int  # of the measurement, from 1
    delivery: Delivery
    txn_size: int
    reads: str
    writes: str
    journal: bool
    eager: bool  # a poll gives what is there, and does not wait until the batch is full
    workers: int  # who are on duty: the first so many

    @property
    def group(self) -> str:
        """Each shift has a consumer group of its own."""
        return f"fencepost-bench-{self.number}"


@dataclass(frozen=True)
class BenchSpec:
    """What the processes of a bench are told. The reader needs none of it."""

    client: ClientSpec
    steps_folder: Path  # takes how long the steps of each shift took
    shifts: tuple[BenchShift, ...]


def echo(topic: str, record: InputRecord) -> Sequence[Output]:
    """The same key and value, to one other topic."""
    return (Output(topic, "echo", record.key, record.value),)


class TimedClient:
    """Has the consumers and producers of a client timed, and gives up its producers once a shift is over."""

    def __init__(self, client: Client, watch: Stopwatch) -> None:
        self._watch = watch
        self._made: list[ProducerClient] = []
        self.eager = False
        self.client = client
        own = vars(client)  # where these stand before those of its class
        own["consumer"] = self._then(client.consumer, self._consumer)
        own["producer"] = self._then(client.producer, self._producer)
        own["plain_producer"] = self._then(client.plain_producer, self._producer)

    def relieve(self) -> None:
        """Give up every producer."""
        for producer in self._made:
            producer.discard()
        self._made.clear()

    def _consumer(self, consumer: GroupConsumer) -> None:
        """Its polls begin a batch."""
        poll = poll_available(consumer.poll) if self.eager else consumer.poll
        vars(consumer)["poll"] = self._batches(poll)
        self._watch.watch(consumer, CONSUMER)

    def _producer(self, producer: ProducerClient) -> None:
        self._watch.watch(producer, PRODUCER)
        self._made.append(producer)

    @staticmethod
    def _then(make: Callable[..., T], watched: Callable[[T], None]) -> Callable[..., T]:
        def call(*arguments: Any, **named: Any) -> T:
            made = make(*arguments, **named)
            watched(made)
            return made

        return call

    def _batches(
        self, poll: Callable[[int, float], list[ClientRecord]]
    ) -> Callable[[int, float], list[ClientRecord]]:
        timed = self._watch.timed("poll", poll)

        def call(max_records: int, timeout_s: float) -> list[ClientRecord]:
            before_s = self._watch.spent("poll")
            records = timed(max_records, timeout_s)
            if records:
                self._watch.batch_begins(self._watch.spent("poll") - before_s)
            return records

        return call


def poll_available(
    poll: Callable[[int, float], list[ClientRecord]],
) -> Callable[[int, float], list[ClientRecord]]:
    """A poll that gives what is there as soon as something is."""

    def call(max_records: int, timeout_s: float) -> list[ClientRecord]:
        records = poll(1, timeout_s)
        if records and len(records) < max_records:
            records += poll(max_records - len(records), 0.0)
        return records

    return call


class Shifts:
    """The worker's process."""

    def __init__(
        self, process: ProcessSpec, bench: BenchSpec, client: Client, journal: Journal, control: Control
    ) -> None:
        assert process.worker is not None
        self._worker, self._bootstrap = process.worker.worker, process.bootstrap
        self._bench = bench
        self._watch = Stopwatch()
        self._timed = TimedClient(client, self._watch)
        self._journal, self._control = journal, control
        self._silent = NoJournal(journal.name)
        self._watch.watch(journal, {"write": "journal"})

    def run(self) -> None:
        """Wait for each shift, and work until relieved; end where the bench says stop."""
        self._control.report(Report(ready=True))
        number = int(self._worker.rpartition("-")[2])  # from 0
        for shift in self._bench.shifts:
            if number >= shift.workers:
                continue
            self._control.await_go()
            if self._control.stopping:
                return
            self._control.replaced = False
            self._watch.begin()
            self._work(shift)
            self._timed.relieve()
            gc.collect()  # what a shift leaves is a circle, and clients hang in it
            steps = self._bench.steps_folder / f"{shift.number}-{self._journal.name}.json"
            steps.write_text(json.dumps(self._watch.per_batch_ms()))
            self._control.report(Report(reached=shift.number))

    def _work(self, shift: BenchShift) -> None:
        self._timed.eager = shift.eager
        name = self._journal.name
        settings = WorkerSettings(
            bootstrap=self._bootstrap,
            group=shift.group,
            transactional_id=f"{shift.group}-{name}",
            process=shift.number,
            txn_size=shift.txn_size,
            abort_share=0.0,
            seed=0,
            policy=RIGHT,
            delivery=shift.delivery,
        )
        stage = WorkloadStage(STAGE, (shift.reads,), (shift.writes,), partial(echo, shift.writes))
        journal = self._journal if shift.journal else self._silent
        Worker(stage, settings, self._timed.client, journal, self._control).run()
