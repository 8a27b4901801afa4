"""The specifications that a run passes to its processes, and the programs that they run.

One of Fencepost's own processes gets two arguments. The first is a `ProcessSpec`: its journal, its connection and its
task. The second is a `RunSpec`, which is the same for all processes of a program. (Processes of a benchmark get a
`BenchSpec` instead.) An instance of a custom pipeline gets neither: `workloads.custom.command` fills in the
placeholders of its command.

A partition is a pair of topic and number.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation, Role
from harness.processes.messages import ProcessMessage, encode


class JournalSpec(ProcessMessage, frozen=True):
    """The journal that a process writes."""

    name: str  # "shop-1.0": worker and incarnation
    path: Path
    zero_ns: int  # the monotonic clock at the start of the run; the times in the journal count from it


class WorkerSpec(ProcessMessage, frozen=True, tag_field="kind", tag="worker"):
    """The task of a worker of a stage."""

    role: ClassVar = Role.WORKER
    stage: str
    worker: str  # its name, which all its incarnations share
    process: int  # the process number of its first operations
    group: str | None  # the consumer group of the stage; None: the stage has none
    transactional_id: str | None  # None: the worker chooses its own, or is not transactional


class FeederSpec(ProcessMessage, frozen=True, tag_field="kind", tag="feeder"):
    """The task of the feeder, which writes the inputs."""

    role: ClassVar = Role.FEEDER
    inputs_per_s: float


class ObserverSpec(ProcessMessage, frozen=True, tag_field="kind", tag="observer"):
    """The task of an observer, which reads partitions at read_committed while the run goes on."""

    role: ClassVar = Role.OBSERVER
    partitions: tuple[TopicPartition, ...]


class FinalReaderSpec(ProcessMessage, frozen=True, tag_field="kind", tag="final-reader"):
    """The task of a final reader, which reads whole partitions at the end of a run."""

    role: ClassVar = Role.FINAL
    isolation: Isolation
    partitions: tuple[TopicPartition, ...]
    end_offsets: tuple[int, ...] | None  # the end of each partition; None: sentinels mark the ends


class TableReaderSpec(ProcessMessage, frozen=True, tag_field="kind", tag="table-reader"):
    """The task of a final reader of a database, which reads whole tables at the end of a run."""

    role: ClassVar = Role.FINAL
    tables: tuple[str, ...]


ReaderSpec = FinalReaderSpec | TableReaderSpec
TaskSpec = WorkerSpec | FeederSpec | ObserverSpec | FinalReaderSpec | TableReaderSpec


class ProcessSpec(ProcessMessage, frozen=True):
    """The specification of one process."""

    journal: JournalSpec
    bootstrap: str  # the bootstrap servers, separated by commas
    control_fd: int | None  # the file descriptor of its end of the control line; None: it has none
    task: TaskSpec

    @property
    def role(self) -> Role:
        """The role of the process."""
        return self.task.role

    @property
    def worker(self) -> WorkerSpec | None:
        """The task of a worker; None: the process is not a worker."""
        return self.task if isinstance(self.task, WorkerSpec) else None


class ConnectionSpec(ProcessMessage, frozen=True):
    """How processes connect to the cluster."""

    client_config: Path | None  # a file of client properties; None: plaintext
    proxied: bool  # whether all processes except final readers connect through proxies, which use plaintext


class JvmSpec(ProcessMessage, frozen=True):
    """How to start the JVM inside a worker."""

    library: Path  # the shared library of the JVM
    class_path: tuple[Path, ...]
    folder: Path  # for files of the JVM: unpacked libraries, crash reports
    flags: tuple[str, ...] = ()


class ClientSpec(ProcessMessage, frozen=True):
    """The Kafka client of the workers."""

    name: str = "librdkafka"  # or java, or the name of a driver
    version: str | None = None  # of its package; None: the installed or the downloaded version
    jvm: JvmSpec | None = None  # only for the Java client
    driver: Path | None = None  # the folder of a driver, see `harness.clients.driver`


class MembershipSpec(ProcessMessage, frozen=True):
    """How workers join their consumer group."""

    protocol: str = "classic"  # or consumer (KIP-848)
    assignor: str | None = None  # of the classic protocol: eager or cooperative; None: the client's default
    static: bool = False  # each worker has a `group.instance.id` (KIP-345)


class TransactionsSpec(ProcessMessage, frozen=True):
    """How workers form their transactions. A share is between 0 and 1."""

    txn_size: int  # the maximum number of inputs of a transaction
    abort_share: float  # the share of transactions that are aborted on purpose
    timeout_ms: int
    # The share of batches that follow an additional transaction that is empty, or has only offsets or only outputs.
    empty_share: float = 0.0
    overrun_share: float = 0.0  # the share of transactions that are kept open longer than their time-out


class WorkloadSpec(ProcessMessage, frozen=True, tag_field="kind", tag="workload"):
    """A workload and its options."""

    name: str
    tag: str  # a part of the names of topics and groups on a shared cluster; empty: none
    defect: str | None  # the defect of its workers; None: they have none
    partitions_per_topic: int  # needed if workers assign partitions to themselves
    database_addresses: Mapping[str, str]  # by kind of database
    client: ClientSpec
    membership: MembershipSpec
    transactions: TransactionsSpec


class CustomPipelineSpec(ProcessMessage, frozen=True, tag_field="kind", tag="custom-pipeline"):
    """A custom pipeline. Only its feeder, observer and final readers are processes of Fencepost."""

    file: Path  # its `pipeline.toml`
    tag: str


class RunSpec(ProcessMessage, frozen=True):
    """The specification that all processes of a run share."""

    seed: int
    compression: str  # of the records that the feeder and workers write
    record_bytes: int  # the size to which values are padded; 0: they are not padded
    journaled: bool  # whether processes write journals; False only in a benchmark
    connection: ConnectionSpec
    partition_counts: Mapping[
        str, int
    ]  # by topic or table, in the order of the partition numbers of the plan
    pipeline: WorkloadSpec | CustomPipelineSpec

    @property
    def client(self) -> ClientSpec | None:
        """The client of the workers; None: a custom pipeline."""
        return self.pipeline.client if isinstance(self.pipeline, WorkloadSpec) else None


@dataclass(frozen=True)
class ProgramRules:
    """How a run detects that a program without a control line is ready, and how it stops the program."""

    ready: str | None = (
        None  # a regular expression that matches a line of output; None: ready when its group has enough members
    )
    ready_within_s: float = 60.0
    stop_signal: str = "SIGTERM"
    stop_within_s: float = 30.0


@dataclass(frozen=True)
class CommandLine:
    """How to start a process."""

    argv: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment of the run
    cwd: Path | None = None
    rules: ProgramRules | None = None  # None: the program has a control line


@dataclass(frozen=True)
class ProgressCommand:
    """How to ask which inputs a stage without a consumer group has processed: its `[stage.progress]`."""

    words: str  # names it in messages: "`python3 progress.py`"
    command_line: Callable[[str], CommandLine]  # from the bootstrap servers
    within_s: float = 10.0  # how long each call may take


class Program(Protocol):
    """The program of the processes of a stage."""

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return how to start a process of this program for a task."""
        ...


@dataclass(frozen=True)
class PythonProgram:
    """A module that runs with two specs: one for the process, and one shared by all processes of the program."""

    module: str  # set by `fencepost`
    common: ProcessMessage
    env: Mapping[str, str] = field(default_factory=dict)  # for example the path of another client version

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return `python -P -m MODULE PROCESS_SPEC COMMON_SPEC`. The process inherits its end of the control line."""
        argv = [sys.executable, "-P", "-m", self.module, encode(spec).decode(), encode(self.common).decode()]
        return CommandLine(argv, pass_fds=() if spec.control_fd is None else (spec.control_fd,), env=self.env)
