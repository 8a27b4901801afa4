"""What a run tells each process that it starts, as dataclasses. `harness.processes.encoding` makes text of them.

A process of ours gets two arguments. The first is a `ProcessSpec`: its journal, its connection and its task. The second
is the same for all processes of a program: a `RunSpec`. (The processes of a bench get a `BenchSpec` in its place.)
A process of a user's gets no spec: `workloads.custom.command` fills in the placeholders of its command.

Partitions are pairs of topic and number. Names end with their unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from harness.model.pipeline import TopicPartition
from harness.model.vocabulary import Isolation, Role


@dataclass(frozen=True)
class JournalSpec:
    """The journal that a process writes."""

    name: str  # "shop-1.0": worker and incarnation
    path: Path
    zero_ns: int  # the start of the run on the monotonic clock: times of the journal count from here


@dataclass(frozen=True)
class WorkerSpec:
    """The task of a worker of a stage."""

    role: ClassVar = Role.WORKER
    stage: str
    worker: str  # its name; the next incarnation has the same
    process: int  # the process number of its first operations
    group: str | None  # the consumer group of the stage; None: the stage has none
    transactional_id: str | None  # None: the worker makes up its own, or has no transactions
    kind: Literal["worker"] = "worker"


@dataclass(frozen=True)
class FeederSpec:
    """The task of the feeder, which writes the inputs."""

    role: ClassVar = Role.FEEDER
    inputs_per_s: float
    kind: Literal["feeder"] = "feeder"


@dataclass(frozen=True)
class ObserverSpec:
    """The task of an observer, which reads partitions at read_committed while the run goes on."""

    role: ClassVar = Role.OBSERVER
    partitions: tuple[TopicPartition, ...]
    kind: Literal["observer"] = "observer"


@dataclass(frozen=True)
class FinalReaderSpec:
    """The task of a final reader, which reads whole partitions at the end of a run."""

    role: ClassVar = Role.FINAL
    isolation: Isolation
    partitions: tuple[TopicPartition, ...]
    end_offsets: tuple[int, ...] | None  # for each partition, where it ends; None: sentinels mark the ends
    kind: Literal["final-reader"] = "final-reader"


@dataclass(frozen=True)
class TableReaderSpec:
    """The task of a final reader of a store, which reads whole tables at the end of a run."""

    role: ClassVar = Role.FINAL
    tables: tuple[str, ...]
    kind: Literal["table-reader"] = "table-reader"


ReaderSpec = FinalReaderSpec | TableReaderSpec
TaskSpec = WorkerSpec | FeederSpec | ObserverSpec | FinalReaderSpec | TableReaderSpec


@dataclass(frozen=True)
class ProcessSpec:
    """What one process is told."""

    journal: JournalSpec
    bootstrap: str  # the bootstrap servers that it connects to, with commas between them
    control_fd: int | None  # the file descriptor of its end of the control line; None: it has none
    task: TaskSpec

    @property
    def role(self) -> Role:
        """The role that its task belongs to."""
        return self.task.role

    @property
    def worker(self) -> WorkerSpec | None:
        """The task of a worker; None: it has another role."""
        return self.task if isinstance(self.task, WorkerSpec) else None


@dataclass(frozen=True)
class ConnectionSpec:
    """How processes connect to the cluster."""

    client_config: Path | None  # a file of client properties; None: plaintext
    proxied: bool  # all but final readers connect through proxies, which speak plaintext


@dataclass(frozen=True)
class JvmSpec:
    """What the JVM inside a worker is started from."""

    library: Path  # of the JVM
    class_path: tuple[Path, ...]
    folder: Path  # takes what it leaves beside: unpacked libraries, the report of a crash
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientSpec:
    """The Kafka client of the workers."""

    name: str = "librdkafka"  # or java
    version: str | None = None  # of its package; None: the one that is installed or fetched
    jvm: JvmSpec | None = None  # of the Java client


@dataclass(frozen=True)
class MembershipSpec:
    """How workers belong to their group."""

    protocol: str = "classic"  # or consumer (KIP-848)
    assignor: str | None = None  # of the classic protocol: eager or cooperative; None: the client's default
    static: bool = False  # each worker has an instance id (KIP-345)


@dataclass(frozen=True)
class TransactionsSpec:
    """How workers form their transactions. Shares are between 0 and 1."""

    txn_size: int  # inputs that a transaction takes at most
    abort_share: float  # of the transactions: aborted on purpose
    timeout_ms: int
    empty_share: float = (
        0.0  # of the batches: preceded by a transaction with nothing, offsets or outputs alone
    )
    overrun_share: float = 0.0  # of the transactions: held open past their time-out


@dataclass(frozen=True)
class WorkloadSpec:
    """A built-in pipeline, and how its workers go about it."""

    name: str
    tag: str  # in the names of its topics and groups, where a cluster has others'; empty: none
    defect: str | None  # the mistake that its workers make on purpose
    topic_partitions: int  # of each topic, where a worker assigns itself partitions
    stores: Mapping[str, str]  # the address of each kind of store that it uses
    client: ClientSpec
    membership: MembershipSpec
    transactions: TransactionsSpec
    kind: Literal["workload"] = "workload"


@dataclass(frozen=True)
class CustomPipelineSpec:
    """A user's pipeline, around which only feeder, observer and final readers are ours."""

    file: Path  # its description, pipeline.toml
    tag: str
    kind: Literal["custom-pipeline"] = "custom-pipeline"


@dataclass(frozen=True)
class RunSpec:
    """What all processes of a run are told."""

    seed: int
    compression: str  # of the records that feeder and workers write
    record_bytes: int  # the size that values are padded to; 0: they are not
    journaled: bool  # processes write journals; only a benchmark does without
    connection: ConnectionSpec
    partition_counts: Mapping[
        str, int
    ]  # by topic or table, in the order in which the plan numbers partitions
    pipeline: WorkloadSpec | CustomPipelineSpec

    @property
    def client(self) -> ClientSpec | None:
        """The client of the workers; None: the workers are commands of a user's."""
        return self.pipeline.client if isinstance(self.pipeline, WorkloadSpec) else None
