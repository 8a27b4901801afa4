"""The entry point of every Python process of a run. Its arguments are a `ProcessSpec` and a `RunSpec`, as JSON.

A run starts a dozen of them, and another one after each kill. Only the final readers import PyArrow, which takes half a
second of processor time.
"""

import atexit
import os
import signal
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from harness.clients.client_properties import use_client_config
from harness.clients.driver import DriverClient
from harness.clients.interface import Client, GroupSettings, ProducerSettings
from harness.clients.librdkafka_client import LibrdkafkaClient
from harness.common.errors import ExitStatus, UsageError
from harness.databases.feeder import TableFeeder
from harness.databases.interface import Database, InputTable
from harness.databases.registry import DATABASES
from harness.environment.versions import RunningClient, running_java, running_librdkafka
from harness.model.expectation import Expectation
from harness.model.vocabulary import Role
from harness.processes.messages import decode
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
from harness.record.naming import PartitionIds
from harness.roles.control import CallWatch, Control
from harness.roles.feeder import Feeder
from harness.roles.observer import Observer
from workloads.custom.pipeline import CustomPipeline
from workloads.defects import policy_of
from workloads.loop.mixed import MixedWorker
from workloads.loop.programs import ProgramWorker
from workloads.loop.relay import Relay
from workloads.loop.transactional import UnusualShares
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import Delivery
from workloads.model.workload import Workload, largest_bytes
from workloads.registry import ALL

if TYPE_CHECKING:
    from harness.databases.reader import DatabaseReader
    from harness.roles.final_reader import FinalReader, ProgramTopics

LOOPS: Mapping[Delivery, type[Worker | MixedWorker | ProgramWorker]] = {
    Delivery.MIXED: MixedWorker,
    Delivery.PROGRAMS: ProgramWorker,
    Delivery.PROGRAMS_OF_MEMBERS: ProgramWorker,
}
"""The loop for a delivery. All deliveries that are not listed use `Worker`."""


def client_of(spec: ClientSpec) -> Client:
    """Create the client that a worker uses."""
    if spec.driver is not None:
        return DriverClient(spec.driver)
    if spec.name != "java":
        return LibrdkafkaClient()
    from harness.clients.java_client import JavaClient

    assert spec.jvm is not None, "the spec of the Java client names a JVM"
    return JavaClient(spec.jvm)


def running_client(role: Role, spec: ClientSpec | None) -> RunningClient:
    """The client that this process uses. Workers use the client of the pipeline. All other processes use librdkafka."""
    if role is Role.WORKER and spec is not None and spec.driver is not None:
        return RunningClient(spec.name, spec.version or "")
    if role is not Role.WORKER or spec is None or spec.name != "java":
        return running_librdkafka()
    client_of(spec)
    return running_java()


def require_client(spec: ClientSpec | None, client: RunningClient) -> None:
    """End the process if its client has another version than the spec."""
    if spec is not None and client.name == spec.name:
        client.require(spec.version)


def group_settings(spec: MembershipSpec, worker: str) -> GroupSettings:
    """Group settings of a worker. A static member has the name of the worker, which its replacement also has."""
    return GroupSettings(spec.protocol, spec.assignor, worker if spec.static else None)


def open_database(spec: WorkloadSpec) -> Database | None:
    """Connect to the database that the pipeline writes. None if it has none."""
    return next((DATABASES[kind].connect(address) for kind, address in spec.database_addresses.items()), None)


def input_table(spec: WorkloadSpec, workload: Workload, table: str) -> InputTable:
    """Connect to a table whose rows are inputs."""
    kind = workload.tables[table]
    return DATABASES[kind].inputs(spec.database_addresses[kind])


def main(argv: Sequence[str] | None = None) -> None:
    """Do the task of the specs until the run sends the command to stop."""
    process_text, run_text = argv or sys.argv[1:]
    process, run = decode(ProcessSpec, process_text), decode(RunSpec, run_text)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # only the run handles Ctrl-C; it then sends the command to stop
    behind_proxies = run.connection.proxied and process.role is not Role.FINAL  # proxies speak plaintext
    use_client_config(None if behind_proxies else run.connection.client_config)
    control = Control(None if process.control_fd is None else socket.socket(fileno=process.control_fd))
    if process.role is Role.FINAL:
        from harness.record.parts import remove_parts

        remove_parts(process.journal.path)
    client = running_client(process.role, run.client)
    require_client(run.client, client)
    journal = journal_of(process, client) if run.journaled else NoJournal(process.journal.name)
    with journal, CallWatch(control, journal).watching():
        try:
            if isinstance(run.pipeline, WorkloadSpec):
                build_task(process, run, run.pipeline, journal, control).run()
            else:
                build_custom_task(process, run, run.pipeline, journal, control).run()
        except UsageError as error:  # raised by functions of the user, or because of what they return
            print(error, file=sys.stderr)  # the last line of the log, which the run shows to the user
            sys.exit(ExitStatus.USAGE)


def journal_of(process: ProcessSpec, client: RunningClient) -> Journal:
    """Begin the journal of this process."""
    worker = process.worker
    first_event = JournalBegan(
        process.journal.name,
        role=process.role.value,
        stage=worker.stage if worker else None,
        worker=worker.worker if worker else None,
        process=worker.process if worker else 0,
        bootstrap=process.bootstrap,
        client=client.name,
        client_version=client.version,
        library_version=client.library,
    )
    return Journal(process.journal.path, process.journal.zero_ns, first_event)


def end_at_once() -> NoReturn:
    """Exit without waiting for the clients. librdkafka often takes a second to close."""
    atexit._run_exitfuncs()  # such as that of the JVM of the Java client
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def build_task(
    process: ProcessSpec, run: RunSpec, pipeline: WorkloadSpec, journal: Journal, control: Control
) -> "Worker | MixedWorker | ProgramWorker | Relay | Feeder | TableFeeder | Observer | FinalReader | DatabaseReader":
    """Build the object that does the task of a process, for a workload."""
    workload = ALL[pipeline.name].tagged(pipeline.tag).padded(run.record_bytes)
    match process.task:
        case WorkerSpec() as task:
            return make_worker(process, task, run, pipeline, workload, journal, control)
        case FeederSpec(inputs_per_s=rate) if workload.fed_table:
            (feed,) = workload.feeds(pipeline.partitions_per_topic)
            connect = partial(input_table, pipeline, workload, feed.topic)
            return TableFeeder(
                connect, feed, rate, pipeline.transactions.abort_share, run.seed, journal, control
            )
        case FeederSpec(inputs_per_s=rate):
            settings = ProducerSettings(process.bootstrap, compression=run.compression)
            feeds = workload.feeds(pipeline.partitions_per_topic)
            return Feeder(settings, feeds, rate, run.seed, journal, control)
        case ObserverSpec() as task:
            return Observer(process.bootstrap, task.partitions, journal, control)
        case TableReaderSpec(tables=tables):
            return database_reader_of(process, tables, run, pipeline, workload, journal, control)
        case FinalReaderSpec() as task:
            return final_reader_of(
                process, task, run, journal, control, workload.expectation(), stated_topics(workload)
            )


def build_custom_task(
    process: ProcessSpec, run: RunSpec, pipeline: CustomPipelineSpec, journal: Journal, control: Control
) -> "Feeder | Observer | FinalReader":
    """Build the object that does the task of a process, for a custom pipeline. Its instances are commands."""
    described = CustomPipeline.load(str(pipeline.file)).tagged(pipeline.tag)
    match process.task:
        case FeederSpec(inputs_per_s=rate):
            settings = ProducerSettings(process.bootstrap, compression=run.compression)
            feeds = described.feeds(run.partition_counts)
            return Feeder(settings, feeds, rate, run.seed, journal, control)
        case ObserverSpec() as task:
            return Observer(process.bootstrap, task.partitions, journal, control)
        case FinalReaderSpec() as task:
            from harness.roles.final_reader import ProgramTopics

            ends = dict(zip(task.partitions, task.end_offsets or (), strict=task.end_offsets is not None))
            other_topics = ProgramTopics(described.written, ends)
            return final_reader_of(
                process, task, run, journal, control, described.expectation(), described.read, other_topics
            )
        case WorkerSpec() | TableReaderSpec():
            raise ValueError(f"a custom pipeline has no process of the kind {type(process.task).__name__}")


def final_reader_of(
    process: ProcessSpec,
    task: FinalReaderSpec,
    run: RunSpec,
    journal: Journal,
    control: Control,
    expect: Expectation,
    stated: Collection[str],
    other_topics: "ProgramTopics | None" = None,
) -> "FinalReader":
    from harness.record.parts import PartWriter, parts_folder
    from harness.roles.final_reader import FinalReader

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
        other_topics,
    )


def database_reader_of(
    process: ProcessSpec,
    tables: Sequence[str],
    run: RunSpec,
    pipeline: WorkloadSpec,
    workload: Workload,
    journal: Journal,
    control: Control,
) -> "DatabaseReader":
    from harness.databases.reader import DatabaseReader
    from harness.record.parts import PartWriter, parts_folder

    store = open_database(pipeline)
    assert store is not None, "the spec names a database if tables are read"
    return DatabaseReader(
        store,
        tables,
        PartitionIds(run.partition_counts),
        journal,
        PartWriter(journal, parts_folder(process.journal.path)),
        control,
        workload.expectation(),
        stated_topics(workload),
        {table: input_table(pipeline, workload, table) for table in tables if table in workload.read_tables},
    )


def make_worker(
    process: ProcessSpec,
    task: WorkerSpec,
    run: RunSpec,
    pipeline: WorkloadSpec,
    workload: Workload,
    journal: Journal,
    control: Control,
) -> Worker | MixedWorker | ProgramWorker | Relay:
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
        stage_index=workload.index_of(task.stage),
        partitions=pipeline.partitions_per_topic,
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
    """Topics whose records the workload can explain: inputs and sums."""
    inputs = {topic for stage in workload.stages for topic in stage.reads}
    return frozenset(inputs | {stage.aggregate.topic for stage in workload.stages if stage.aggregate})


if __name__ == "__main__":
    main()
    end_at_once()
