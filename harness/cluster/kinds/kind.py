"""`ClusterKind`: the properties of a cluster kind."""

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
    """The arguments of `ClusterKind.open`."""

    spec: ClusterSpec
    folder: Path
    prepared: "PreparedEnvironment"
    supervisor: "Supervisor"
    next_port: Callable[[], int]


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster: its abilities, its options, and how it is opened.

    `exclusive_options` and `refused_options` name an option by key, or by key and value: `prefix`, `keep=topics`.
    """

    name: str
    summary: str  # one line of `fencepost list clusters`
    abilities: frozenset[Need]  # including the network effects that its links can have
    one_clock: bool  # brokers and clients use the clock of one machine
    open: Callable[[ClusterParts], AbstractContextManager[Cluster]]
    # A shared cluster exists before the run. The names of a run's topics and groups on it begin with the run's tag.
    shared: bool = False
    image: bool = False  # its brokers run in containers of an image
    # Options that only this kind has, and why other kinds refuse them.
    exclusive_options: Mapping[str, str] = field(default_factory=dict)
    # Options that this kind refuses, and why.
    refused_options: Mapping[str, str] = field(default_factory=dict)
    # For each value of --set permits: the abilities that it adds.
    permits: Mapping[str, frozenset[Need]] = field(default_factory=dict)
    check: Callable[[Options], None] = lambda options: None  # raises `UsageError`
    # Asks the cluster how many brokers it has. None: --brokers decides.
    brokers: Callable[[Options], int] | None = None

    def __str__(self) -> str:
        """Describe it for a message: "an external cluster"."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name} cluster"
