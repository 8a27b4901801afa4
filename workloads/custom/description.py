"""The contents of `pipeline.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

from msgspec import Meta

from harness.common.toml_tables import Text, TextOrEmpty, matches
from harness.model.vocabulary import Guarantee
from harness.processes.specs import ProgramRules

CONTENT = "content"
"""The value of `correlate` that joins outputs to inputs by their complete content."""


@dataclass(frozen=True)
class UserFunction:
    """A user's function in a Python file: `expect.py:outputs`."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}"


Part = Literal["headers", "timestamp_ms", "partition"]
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts of an output that are compared if `compare` names them."""
IGNORED_HEADER = "header:"
"""The prefix of a header in `ignore`."""
Partitioner = Literal[
    "murmur2_random",
    "consistent_random",
    "murmur2",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
]
"""The partitioners of librdkafka, by their names there. `_random`: a record without a key goes to any partition."""
JAVA_PARTITIONER: Partitioner = "murmur2_random"
"""The partitioner that chooses the same partition for a key as the Java client and Kafka Streams."""


@dataclass(frozen=True)
class InputSource:
    """The source of the inputs of a topic: a function, or a file of JSON lines."""

    make: UserFunction | None = None  # (rng, n) -> (key, value), (key, value, headers) or a dict as in `file`
    file: Path | None = None  # each line: {"key", "value", "headers", "timestamp_ms", "partition"}
    share: float = 1.0  # of the rate
    partitioner: str = JAVA_PARTITIONER


@dataclass(frozen=True)
class CustomTopic:
    """`[topics.NAME]`: settings of a topic."""

    partitions: Annotated[int, Meta(ge=1, le=64)] | None = None  # None: the number in the options of the run
    config: Mapping[str, TextOrEmpty] = field(default_factory=dict)


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
    """`[stage.progress]`: either a command or a query, which prints which inputs of a stage are processed."""

    command: tuple[Text, ...] = ()
    sql: Text | None = None
    database: Text | None = (
        None  # for `sql`: the URL of a PostgreSQL database, or the file of a SQLite database
    )
    within_s: Annotated[float, Meta(ge=0.1, le=300)] = 10.0  # how long each call may take

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that may have placeholders."""
        return (*self.command, self.sql or "", self.database or "")


@dataclass(frozen=True)
class CustomStage:
    """`[[stage]]`: a program and its instances."""

    name: Annotated[
        str, matches(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*", "letters, digits, '_' and '-'", example='"bill"')
    ]
    reads: Annotated[tuple[Text, ...], Meta(min_length=1, examples=['["purchases"]'])]
    writes: Annotated[tuple[Text, ...], Meta(min_length=1, examples=['["invoices"]'])]
    command: Annotated[
        tuple[Text, ...], Meta(min_length=1, examples=['["./billing", "--brokers", "{bootstrap}"]'])
    ]
    instances: Annotated[int, Meta(ge=1, le=16)] = 3
    group: Text | None = None
    # It may contain {instance}. None: the stage has none, or the file does not name it.
    transactional_id: Text | None = None
    transactions: bool = True  # it uses transactions if the pipeline promises exactly-once
    transaction_timeout_s: Annotated[float, Meta(ge=1, le=900)] = 60.0
    ordered: bool = False
    # At the end, a stage without a group is done when it has written nothing for this time.
    idle_s: Annotated[float, Meta(ge=1, le=300)] = 15.0
    # How long a fault on an instance waits until the stage writes again. None: 20 s, and the schedule reserves no time;
    # a longer `every_s` is used and reserved instead.
    works_within_s: Annotated[float, Meta(ge=1, le=600)] | None = None
    # The default of the setting metadata.max.age.ms, in Java and in librdkafka
    metadata_max_age_s: Annotated[float, Meta(ge=1, le=3600)] = 300.0
    env: Mapping[str, TextOrEmpty] = field(default_factory=dict)
    cwd: Text | None = None
    kind: Literal["service", "job"] = "service"
    # The time between starts of a job's instance; None: it starts once
    every_s: Annotated[float, Meta(ge=0.1, le=600)] | None = None
    # How the program signals that it is ready; None: it is ready when its group has enough members.
    ready: (
        Annotated[str, matches(r"line:[^\0]*", '"line:PATTERN", and PATTERN matches a line of its output')]
        | None
    ) = None
    ready_within_s: Annotated[float, Meta(ge=1, le=600)] = 60.0
    stop: Text = "SIGTERM"  # the name of a signal
    stop_within_s: Annotated[float, Meta(ge=1, le=300)] = 30.0
    progress: ProgressSource | None = None

    @property
    def rules(self) -> ProgramRules:
        """How a run detects that the program is ready, and how it stops the program."""
        pattern = self.ready.removeprefix("line:") if self.ready else None
        return ProgramRules(pattern, self.ready_within_s, self.stop, self.stop_within_s)


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
