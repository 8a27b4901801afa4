"""The worker process of a bench. It takes part in many measurements, each with another pipeline.

A *shift* is the work of the process in one measurement. It uses the same loop, client, journal and control line as the
worker of a run. The process lives for the whole bench, so that no measurement includes the start of Python or a JVM.
"""

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.exactly_once.stopwatch import CONSUMER, PRODUCER, Stopwatch
from harness.clients.interface import Client, ClientRecord, GroupConsumer, ProducerClient
from harness.model.expectation import InputRecord
from harness.processes.messages import ProcessMessage, Report
from harness.processes.specs import ClientSpec, ProcessSpec
from harness.record.journal import Journal, NoJournal
from harness.roles.control import Control
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import CORRECT, Delivery
from workloads.model.workload import Output, WorkloadStage

T = TypeVar("T")

STAGE = "bench"


@dataclass(frozen=True)
class BenchShift:
    """The task of a worker in one measurement."""

    number: int  # number of the measurement, from 1
    delivery: Delivery
    txn_size: int
    reads: str
    writes: str
    journal: bool
    eager: bool  # a poll returns available records at once, and does not wait for a full batch
    workers: int  # how many workers take part

    @property
    def group(self) -> str:
        """The consumer group. Each shift has its own."""
        return f"fencepost-bench-{self.number}"


class BenchSpec(ProcessMessage, frozen=True):
    """The spec of the workers of a bench. The reader gets one too, and ignores it."""

    client: ClientSpec
    steps_folder: Path  # for files with the durations of steps
    shifts: tuple[BenchShift, ...]


def echo(topic: str, record: InputRecord) -> Sequence[Output]:
    """Copy the key and the value to another topic."""
    return (Output(topic, "echo", record.key, record.value),)


class TimedClient:
    """Times the calls of a client's consumers and producers, and closes its producers at the end of a shift."""

    def __init__(self, client: Client, watch: Stopwatch) -> None:
        self._watch = watch
        self._producers: list[ProducerClient] = []
        self.eager = False
        self.client = client
        own = vars(client)  # attributes of the object take precedence over methods of its class
        own["consumer"] = self._then(client.consumer, self._consumer)
        own["producer"] = self._then(client.producer, self._producer)
        own["plain_producer"] = self._then(client.plain_producer, self._producer)

    def discard_producers(self) -> None:
        """Discard all producers."""
        for producer in self._producers:
            producer.discard()
        self._producers.clear()

    def _consumer(self, consumer: GroupConsumer) -> None:
        """Count batches: a poll that returns records begins a batch."""
        poll = poll_available(consumer.poll) if self.eager else consumer.poll
        vars(consumer)["poll"] = self._batches(poll)
        self._watch.watch(consumer, CONSUMER)

    def _producer(self, producer: ProducerClient) -> None:
        self._watch.watch(producer, PRODUCER)
        self._producers.append(producer)

    @staticmethod
    def _then(make: Callable[..., T], watch: Callable[[T], None]) -> Callable[..., T]:
        def call(*arguments: Any, **named: Any) -> T:
            client = make(*arguments, **named)
            watch(client)
            return client

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
    """Wrap `poll` so that it returns as soon as there is a record, with all records that are available."""

    def call(max_records: int, timeout_s: float) -> list[ClientRecord]:
        records = poll(1, timeout_s)
        if records and len(records) < max_records:
            records += poll(max_records - len(records), 0.0)
        return records

    return call


class Shifts:
    """Runs the shifts of one worker."""

    def __init__(
        self, process: ProcessSpec, bench: BenchSpec, client: Client, journal: Journal, control: Control
    ) -> None:
        assert process.worker is not None
        self._worker, self._bootstrap = process.worker.worker, process.bootstrap
        self._bench = bench
        self._watch = Stopwatch()
        self._timed = TimedClient(client, self._watch)
        self._journal, self._control = journal, control
        self._no_journal = NoJournal(journal.name)
        self._watch.watch(journal, {"write": "journal"})

    def run(self) -> None:
        """Wait for each shift, and work until the bench ends it. Return when the bench sends the command to stop."""
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
            self._timed.discard_producers()
            gc.collect()  # clients are part of reference cycles, and must be closed before the next shift
            steps = self._bench.steps_folder / f"{shift.number}-{self._journal.name}.json"
            steps.write_text(json.dumps(self._watch.per_batch_ms()), encoding="utf-8")
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
            policy=CORRECT,
            delivery=shift.delivery,
        )
        stage = WorkloadStage(STAGE, (shift.reads,), (shift.writes,), partial(echo, shift.writes))
        journal = self._journal if shift.journal else self._no_journal
        Worker(stage, settings, self._timed.client, journal, self._control).run()
