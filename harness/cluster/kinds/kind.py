"""`ClusterKind`: what a kind of cluster states of itself."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster import Cluster, ClusterSpec, Need
from harness.settings.options import Options

if TYPE_CHECKING:
    from harness.environment import PreparedEnvironment
    from harness.processes.spawn import Supervisor


@dataclass(frozen=True)
class ClusterParts:
    """What a cluster is opened with."""

    spec: ClusterSpec
    folder: Path
    prepared: "PreparedEnvironment"
    supervisor: "Supervisor"
    next_port: Callable[[], int]


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster: what can be done to it, which options it takes, and how it is opened.

    `takes` and `decides` name options by key, or by key and value: `prefix`, `keep=topics`.
    """

    name: str
    summary: str  # one line of `fencepost list clusters`
    abilities: frozenset[Need]  # what can be done to it, and the effects that its links can have
    one_clock: bool  # brokers and clients run on one machine
    open: Callable[[ClusterParts], AbstractContextManager[Cluster]]
    shared: bool = False  # it exists already: a run neither starts nor ends it, and tags what it makes there
    image: bool = False  # its brokers run in containers of an image
    own_options: Mapping[str, str] = field(default_factory=dict)  # options, and why other kinds refuse them
    refused_options: Mapping[str, str] = field(default_factory=dict)  # options that it refuses, and why
    permits: Mapping[str, frozenset[Need]] = field(
        default_factory=dict
    )  # what each word of --set permits adds to `can`
    check: Callable[[Options], None] = lambda options: None  # raises `UsageError`
    brokers: Callable[[Options], int] | None = (
        None  # asks the cluster for its number; None: --brokers says it
    )

    def __str__(self) -> str:
        """Return it for a message: "an external cluster"."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name} cluster"
