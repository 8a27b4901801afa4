"""What a user says of a pipeline: the file `pipeline.toml`, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.vocabulary import Guarantee
from harness.processes.program import ProgramRules

CONTENT = "content"
"""Outputs are joined to inputs by all that they hold."""


@dataclass(frozen=True)
class UserFunction:
    """A function of the user's, in a Python file: `expect.py:outputs`."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}"


@dataclass(frozen=True)
class InputSource:
    """Where the inputs of a topic come from: a function, or a file of JSON lines."""

    make: UserFunction | None = None  # (rng, n) -> (key, value) or (key, value, headers)
    file: Path | None = None  # {"key": ..., "value": ..., "headers": {...}} in each line
    share: float = 1.0  # of the rate


@dataclass(frozen=True)
class CustomTopic:
    """A topic as it is made."""

    partitions: int | None = None  # None: as the run's options say
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedOutputs:
    """What inputs must lead to, and how outputs are joined to them."""

    outputs: UserFunction | None = None  # (topic, key, value, headers) -> [(topic, key, value), ...]
    fold: UserFunction | None = (
        None  # (state, topic, key, value) -> (state, [(topic, key, value), ...]), by key
    )
    correlate: str | UserFunction = CONTENT  # json:/POINTER, header:NAME, key, content, or a function
    ignore: tuple[str, ...] = ()  # JSON pointers to what is not judged
    final: tuple[str, ...] = ()  # topics in which the last record of each key is judged, and no other


@dataclass(frozen=True)
class CustomStage:
    """One program, and its instances."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    command: tuple[str, ...]
    instances: int = 3
    group: str | None = None
    transactional_id: str | None = None  # with {instance}; None: it has none, or nobody needs to know
    transactions: bool = True  # it writes in transactions, where the pipeline promises exactly-once
    transaction_timeout_s: float = 60.0
    ordered: bool = False
    idle_s: float = 15.0  # without a group: it has nothing left to do once it has written nothing for so long
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    rules: ProgramRules = field(default_factory=ProgramRules)


@dataclass(frozen=True)
class PipelineDescription:
    """All of the file."""

    file: Path
    name: str
    stages: tuple[CustomStage, ...]
    inputs: Mapping[str, InputSource]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    expect: ExpectedOutputs | None = None
    topics: Mapping[str, CustomTopic] = field(default_factory=dict)
    tag: str = ""  # what its topics, groups and ids begin with in this run; empty: they are as in the file

    @property
    def functions(self) -> list[UserFunction]:
        """Every function that it names."""
        expect = self.expect or ExpectedOutputs()
        named = [
            *(one.make for one in self.inputs.values()),
            expect.outputs,
            expect.fold,
            expect.correlate if isinstance(expect.correlate, UserFunction) else None,
        ]
        return [one for one in named if one is not None]

    @property
    def folder(self) -> Path:
        """What paths are relative to."""
        return self.file.parent
