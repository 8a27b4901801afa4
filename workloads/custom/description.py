"""The contents of `pipeline.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.pipeline import SERVICE
from harness.model.vocabulary import Guarantee
from harness.processes.program import ProgramRules

CONTENT = "content"
"""The value of `correlate` that joins outputs to inputs by their complete content."""


@dataclass(frozen=True)
class UserFunction:
    """A user's function in a Python file: `expect.py:outputs`."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}"


PARTS = ("headers", "timestamp_ms", "partition")
"""The parts of an output that are compared if `compare` names them."""
IGNORED_HEADER = "header:"
"""The prefix of a header in `ignore`."""
JAVA_PARTITIONER = "murmur2_random"
"""The partitioner that chooses the same partition for a key as the Java client and Kafka Streams."""
PARTITIONERS = (
    JAVA_PARTITIONER,
    "consistent_random",
    "murmur2",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
)
"""The partitioners of librdkafka, by their names there. `_random`: a record without a key goes to any partition."""


@dataclass(frozen=True)
class InputSource:
    """The source of the inputs of a topic: a function, or a file of JSON lines."""

    make: UserFunction | None = None  # (rng, n) -> (key, value), (key, value, headers) or a dict as in `file`
    file: Path | None = None  # each line: {"key", "value", "headers", "timestamp_ms", "partition"}
    share: float = 1.0  # of the rate
    partitioner: str = JAVA_PARTITIONER


@dataclass(frozen=True)
class CustomTopic:
    """Settings of a topic."""

    partitions: int | None = None  # None: the number in the options of the run
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedOutputs:
    """The expected outputs of inputs, and how outputs are joined to inputs."""

    outputs: UserFunction | None = None  # (topic, key, value, headers) -> [(topic, key, value), ...]
    # (state, topic, key, value) -> (state, [(topic, key, value), ...]), with one state for each key
    fold: UserFunction | None = None
    correlate: str | UserFunction = CONTENT  # json:/POINTER, header:NAME, key, content, or a function
    ignore: tuple[str, ...] = ()  # JSON pointers to fields, and header:NAME, that are not compared
    final: tuple[str, ...] = ()  # topics in which only the last record of each key is checked
    fold_key: UserFunction | None = None  # (topic, key, value, headers) -> the key of a state of `fold`
    # By topic: the parts of its outputs, of PARTS, that are compared in addition to key and value.
    compare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgressSource:
    """A command or a query that prints which inputs of a stage are processed: exactly one of both."""

    command: tuple[str, ...] = ()
    sql: str | None = None
    database: str | None = (
        None  # for `sql`: the URL of a PostgreSQL database, or the file of a SQLite database
    )
    within_s: float = 10.0  # how long each call may take

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that may have placeholders."""
        return (*self.command, self.sql or "", self.database or "")


@dataclass(frozen=True)
class CustomStage:
    """A program and its instances."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    command: tuple[str, ...]
    instances: int = 3
    group: str | None = None
    transactional_id: str | None = (
        None  # contains {instance}; None: it has none, or the file does not name it
    )
    transactions: bool = True  # whether it uses transactions, if the pipeline promises exactly-once
    transaction_timeout_s: float = 60.0
    ordered: bool = False
    idle_s: float = (
        15.0  # at the end, a stage without a group is done when it has written nothing for this time
    )
    # How long a fault on an instance waits until the stage writes again; None: 20 s, and nothing is reserved for it
    works_within_s: float | None = None
    metadata_max_age_s: float = (
        300.0  # the default of the setting metadata.max.age.ms, in Java and in librdkafka
    )
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    kind: str = SERVICE  # SERVICE or JOB
    every_s: float | None = None  # of a job: from one start of an instance to the next; None: one start
    rules: ProgramRules = field(default_factory=ProgramRules)
    progress: ProgressSource | None = None


@dataclass(frozen=True)
class PipelineDescription:
    """The contents of the file."""

    file: Path
    name: str
    stages: tuple[CustomStage, ...]
    inputs: Mapping[str, InputSource]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    expect: ExpectedOutputs | None = None
    topics: Mapping[str, CustomTopic] = field(default_factory=dict)
    tag: str = ""  # prefix of its topics, groups and ids in this run; empty: the names in the file are used

    @property
    def functions(self) -> list[UserFunction]:
        """All functions that the file names."""
        expect = self.expect or ExpectedOutputs()
        functions = [
            *(source.make for source in self.inputs.values()),
            expect.outputs,
            expect.fold,
            expect.fold_key,
            expect.correlate if isinstance(expect.correlate, UserFunction) else None,
        ]
        return [function for function in functions if function is not None]

    @property
    def folder(self) -> Path:
        """The folder of the file. Paths in the file are relative to it."""
        return self.file.parent
