"""The entry of every process of a run that speaks Kafka; the run hands it a `ProcessSpec` and a `RunSpec`.

A user's workload is loaded here, in a worker, and never in the command's own process.
"""

import atexit
import os
import signal
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NoReturn

from harness.clients.client_properties import use_client_config
from harness.clients.interface import Client, GroupSettings, ProducerSettings
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.common.errors import ExitStatus, UsageError
from harness.databases.feeder import TableFeeder
from harness.databases.interface import Database, InputTable
from harness.databases.reader import DatabaseReader
from harness.databases.registry import DATABASES
from harness.model.expectation import Expectation
from harness.model.vocabulary import Role
from harness.processes.encoding import decode
from harness.processes.specs import (
    ClientSpec,
    CustomPipelineSpec,
    FeederSpec,
    FinalReaderSpec,
    MembershipSpec,
    ObserverSpec,
    ProcessSpec,
    RunSpec,
    TableReaderSpec,
    WorkerSpec,
    WorkloadSpec,
)
from harness.record.events import JournalBegan
from harness.record.journal import Journal, NoJournal
from harness.record.partitions import PartitionIds
from harness.record.parts import PartWriter, parts_folder, remove_parts
from harness.roles.call_watch import CallWatch
from harness.roles.control import Control
from harness.roles.feeder import Feeder
from harness.roles.final_reader import FinalReader, ProgramTopics
from harness.roles.observer import Observer
from harness.roles.running_client import RunningClient, running_java, running_librdkafka
from workloads.custom.pipeline import CustomPipeline
from workloads.defects.registry import policy_of
from workloads.loop.mixed import MixedWorker
from workloads.loop.relay import Relay
from workloads.loop.unusual import UnusualShares
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.padding import largest_bytes, padded
from workloads.model.policy import Delivery
from workloads.model.workload import Workload
from workloads.registry import WORKLOADS

LOOPS: Mapping[Delivery, type[Worker] | type[MixedWorker]] = {Delivery.MIXED: MixedWorker}
"""The loop of a stage, by how it delivers; all others are the one that takes inputs and makes outputs of them."""


def client_of(spec: ClientSpec) -> Client:
    """The client that a worker is told to use."""
    if spec.name != "java":
        return LibrdkafkaClient()
    from harness.clients.java_client import JavaClient

    assert spec.jvm is not None, "who uses the Java client is told of a JVM"
    return JavaClient(spec.jvm)


def running_client(role: Role, asked: ClientSpec | None) -> RunningClient:
    """The client that this process runs: a worker that of the pipeline, and all others librdkafka."""
    if role is not Role.WORKER or asked is None or asked.name != "java":
        return running_librdkafka()
    client_of(asked)
    return running_java()


def require_client(asked: ClientSpec | None, running: RunningClient) -> None:
    """End the process where it runs another version of the pipeline's client than was asked for."""
    if asked is not None and running.name == asked.name:
        running.require(asked.version)


def group_settings(spec: MembershipSpec, worker: str) -> GroupSettings:
    """How a worker belongs to its group: a static member goes by the worker's name, which its replacement has too."""
    return GroupSettings(spec.protocol, spec.assignor, worker if spec.static else None)


def open_database(spec: WorkloadSpec) -> Database | None:
    """The store that the pipeline writes, if it has one."""
    return next((DATABASES[kind].connect(address) for kind, address in spec.stores.items()), None)


def input_table(spec: WorkloadSpec, workload: Workload, table: str) -> InputTable:
    """A table whose rows are inputs."""
    kind = workload.tables[table]
    return DATABASES[kind].inputs(spec.stores[kind])


def main(argv: Sequence[str] | None = None) -> None:
    """Be what the two specs say until told to stop."""
    process_text, run_text = argv or sys.argv[1:]
    process, run = decode(ProcessSpec, process_text), decode(RunSpec, run_text)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then says stop
    behind_proxies = run.connection.proxied and process.role is not Role.FINAL  # which speak plaintext
    use_client_config(None if behind_proxies else run.connection.client_config)
    control = Control(None if process.control_fd is None else socket.socket(fileno=process.control_fd))
    if process.role is Role.FINAL:
        remove_parts(process.journal.path)
    running = running_client(process.role, run.client)
    require_client(run.client, running)
    journal = journal_of(process, running) if run.journaled else NoJournal(process.journal.name)
    with journal, CallWatch(control, journal).watching():
        try:
            if isinstance(run.pipeline, WorkloadSpec):
                build_task(process, run, run.pipeline, journal, control).run()
            else:
                build_custom_task(process, run, run.pipeline, journal, control).run()
        except UsageError as error:  # of the user's functions, and of what they give
            print(error, file=sys.stderr)  # the last line of its log: it is told to whoever started the run
            sys.exit(ExitStatus.USAGE)


def journal_of(process: ProcessSpec, running: RunningClient) -> Journal:
    """Begin the journal of this process."""
    worker = process.worker
    begun = JournalBegan(
        process.journal.name,
        role=process.role.value,
        stage=worker.stage if worker else None,
        worker=worker.worker if worker else None,
        process=worker.process if worker else 0,
        bootstrap=process.bootstrap,
        client=running.name,
        client_version=running.version,
        library_version=running.library,
    )
    return Journal(process.journal.path, process.journal.zero_ns, begun)


def end_at_once() -> NoReturn:
    """End with all said and done, and whoever was in a group gone from it: librdkafka often takes a second to take a
    client down, and Python would wait for that.
    """
    atexit._run_exitfuncs()  # of a user's workload, and of the Java client's JVM
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def build_task(
    process: ProcessSpec, run: RunSpec, pipeline: WorkloadSpec, journal: Journal, control: Control
) -> Worker | MixedWorker | Relay | Feeder | TableFeeder | Observer | FinalReader | DatabaseReader:
    """The object that does the task of a process of a built-in pipeline."""
    workload = padded(WORKLOADS[pipeline.name].tagged(pipeline.tag), run.record_bytes)
    match process.task:
        case WorkerSpec() as task:
            return worker_of(process, task, run, pipeline, workload, journal, control)
        case FeederSpec(inputs_per_s=rate) if workload.fed_table:
            (feed,) = workload.feeds()
            connect = partial(input_table, pipeline, workload, feed.topic)
            return TableFeeder(
                connect, feed, rate, pipeline.transactions.abort_share, run.seed, journal, control
            )
        case FeederSpec(inputs_per_s=rate):
            limit = largest_bytes(run.record_bytes)
            settings = ProducerSettings(process.bootstrap, largest_bytes=limit, compression=run.compression)
            return Feeder(settings, workload.feeds(), rate, run.seed, journal, control)
        case ObserverSpec() as task:
            return Observer(process.bootstrap, task.partitions, journal, control)
        case TableReaderSpec(tables=tables):
            store = open_database(pipeline)
            assert store is not None, "who reads tables is told of the store"
            parts = PartWriter(journal, parts_folder(process.journal.path))
            inputs_by = {
                table: input_table(pipeline, workload, table)
                for table in tables
                if table in workload.read_tables
            }
            expect, stated = workload.expectation(), stated_topics(workload)
            numbers = PartitionIds(run.partition_counts)
            return DatabaseReader(store, tables, numbers, journal, parts, control, expect, stated, inputs_by)
        case FinalReaderSpec() as task:
            return final_reader_of(
                process, task, run, journal, control, workload.expectation(), stated_topics(workload)
            )


def build_custom_task(
    process: ProcessSpec, run: RunSpec, pipeline: CustomPipelineSpec, journal: Journal, control: Control
) -> Feeder | Observer | FinalReader:
    """The same around a user's pipeline, whose workers are commands."""
    described = CustomPipeline.load(str(pipeline.file)).tagged(pipeline.tag)
    match process.task:
        case FeederSpec(inputs_per_s=rate):
            settings = ProducerSettings(process.bootstrap, compression=run.compression)
            return Feeder(settings, described.feeds(), rate, run.seed, journal, control)
        case ObserverSpec() as task:
            return Observer(process.bootstrap, task.partitions, journal, control)
        case FinalReaderSpec() as task:
            ends = dict(zip(task.partitions, task.end_offsets or (), strict=task.end_offsets is not None))
            foreign = ProgramTopics(described.written, ends)
            return final_reader_of(
                process, task, run, journal, control, described.expectation(), described.read, foreign
            )
        case WorkerSpec() | TableReaderSpec():
            raise ValueError(f"a user's pipeline has no process of ours as {process.task.kind}")


def final_reader_of(
    process: ProcessSpec,
    task: FinalReaderSpec,
    run: RunSpec,
    journal: Journal,
    control: Control,
    expect: Expectation,
    stated: Collection[str],
    foreign: ProgramTopics | None = None,
) -> FinalReader:
    """A final reader of partitions."""
    parts = PartWriter(journal, parts_folder(process.journal.path))
    return FinalReader(
        process.bootstrap,
        task.partitions,
        PartitionIds(run.partition_counts),
        task.isolation,
        journal,
        parts,
        control,
        expect,
        stated,
        foreign,
    )


def worker_of(
    process: ProcessSpec,
    task: WorkerSpec,
    run: RunSpec,
    pipeline: WorkloadSpec,
    workload: Workload,
    journal: Journal,
    control: Control,
) -> Worker | MixedWorker | Relay:
    """A worker of a stage."""
    stage, transactions = workload.stage(task.stage), pipeline.transactions
    settings = WorkerSettings(
        bootstrap=process.bootstrap,
        group=task.group,
        transactional_id=task.transactional_id,
        process=task.process,
        txn_size=transactions.txn_size,
        abort_share=transactions.abort_share,
        seed=run.seed,
        policy=policy_of(pipeline.defect),
        delivery=workload.delivery_of(stage),
        place=workload.place_of(task.stage),
        partitions=pipeline.topic_partitions,
        compression=run.compression,
        largest_bytes=largest_bytes(run.record_bytes),
        txn_timeout_ms=transactions.timeout_ms,
        shares=UnusualShares(transactions.empty_share, transactions.overrun_share),
        group_settings=group_settings(pipeline.membership, task.worker),
    )
    client = client_of(pipeline.client)
    if settings.delivery is Delivery.RELAYED:
        inputs = input_table(pipeline, workload, stage.reads[0])
        return Relay(stage, settings, client, journal, control, inputs)
    kind = LOOPS.get(settings.delivery, Worker)
    return kind(stage, settings, client, journal, control, open_database(pipeline))


def stated_topics(workload: Workload) -> frozenset[str]:
    """The topics of whose records the workload says something: its inputs, and its sums."""
    inputs = {topic for stage in workload.stages for topic in stage.reads}
    return frozenset(inputs | {stage.aggregate.topic for stage in workload.stages if stage.aggregate})


if __name__ == "__main__":
    main()
    end_at_once()
