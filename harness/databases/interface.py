"""What a store is to those who write into it and to who reads it at the end.

A store has two kinds of tables. One of effects: a row for each thing that was done, which names the attempt and the
inputs that it comes from, as an output in Kafka does in its headers. And one of state: a row for each key, which
counts how often it was changed. Beside them a store keeps how far each group's inputs are applied, in the same
transaction: that is how a store takes each input once (Kleppmann, Designing Data-Intensive Applications, chapter 11).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.environment.postgres import Postgres
    from harness.processes.spawn import Supervisor

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class SideEffect:
    """Something that was done."""

    table: str
    value: str  # the name of the attempt
    output_name: str  # which of its inputs' effects it is
    sources: str  # its inputs, as the header of an output has them
    key: bytes | None
    content: bytes | None


@dataclass(frozen=True)
class KeyState:
    """What is known of a key."""

    key: bytes
    content: bytes | None
    changes: int  # how often it was changed


class DatabaseError(Exception):
    """The store could not do it, and nothing was done."""


class CommitUnknown(DatabaseError):
    """The store did not say whether the transaction took effect."""


class PositionConflict(DatabaseError):
    """The inputs are not at the place where this process had left them: another has gone on."""


class DatabaseTransaction(Protocol):
    """All of it takes effect, or nothing. Each call raises `DatabaseError`."""

    def add(self, effect: SideEffect) -> None:
        """Do something."""
        ...

    def add_once(self, effect: SideEffect) -> bool:
        """Do something, unless it was done for the same inputs and output name before; whether it was done now."""
        ...

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        """Set the state of a key, and count the change."""
        ...

    def advance(self, group: str, place: Place, known: int | None, following: int) -> None:
        """Say that the inputs below `following` are applied. Raises `PositionConflict` if they are not at `known`."""
        ...


class Database(Protocol):
    """A store, opened by one process."""

    def position(self, group: str, place: Place) -> int | None:
        """How far the inputs of a partition are applied; None: none is. Raises `DatabaseError`."""
        ...

    def transaction(self) -> AbstractContextManager[DatabaseTransaction]:
        """Leaving the `with` commits; an exception rolls back. Raises `DatabaseError`, `CommitUnknown`."""
        ...

    def effects(self, table: str) -> Iterable[tuple[int, SideEffect]]:
        """The rows of a table of effects with their numbers, from 0, in the order in which they were written."""
        ...

    def states(self, table: str) -> Iterable[tuple[int, KeyState]]:
        """The rows of a table of state with their numbers, from 0."""
        ...

    def close(self) -> None:
        """Be done with it."""
        ...


@dataclass(frozen=True)
class NewTableRow:
    """A row on its way into a table of inputs."""

    value: str  # the name of the attempt
    key: bytes | None
    content: bytes | None


@dataclass(frozen=True)
class TableRow(NewTableRow):
    """A row of a table of inputs."""

    number: int  # its offset: rows have them in the order in which they were written, not committed
    taken: bool = False  # it is marked as done, or whoever takes rows has gone past it


Range = tuple[int, int]
"""From the first number to below the second."""


class InputTable(Protocol):
    """A table whose rows are inputs, as it is open to one process: an outbox.

    A row is visible once the transaction that wrote it has committed. Each call raises `DatabaseError`, after which the
    transaction has ended without effect; the next call begins another, on a new connection where the last one broke.
    """

    def write(self, rows: Sequence[NewTableRow]) -> list[int]:
        """Write an order and its row for each, in the transaction; gives their numbers."""
        ...

    def take(self, max_records: int) -> list[TableRow]:
        """Lock the first rows that nobody has done or is about to do."""
        ...

    def take_after_position(self, max_records: int) -> list[TableRow]:
        """The rows beyond the place that all who take have in common, which is locked; none while another has it."""
        ...

    def mark(self, numbers: Sequence[int]) -> None:
        """Mark rows as done."""
        ...

    def move_position(self, number: int) -> None:
        """Move the common place."""
        ...

    def commit(self) -> None:
        """End the transaction; raises `CommitUnknown` too."""
        ...

    def roll_back(self) -> None:
        """End the transaction without effect. Raises nothing: one whose connection broke has ended so."""
        ...

    def count_pending(self, within: Range | None = None) -> int:
        """How many visible rows nobody has done yet."""
        ...

    def read_all(self) -> tuple[list[TableRow], int]:
        """All visible rows, by number, and a number that lies above all that were ever given."""
        ...

    def close(self) -> None:
        """Be done with it."""
        ...


class Service(Protocol):
    """The server of a store: a child of the run, which a fault may kill."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, or was killed on purpose."""
        ...

    def kill(self) -> str:
        """SIGKILL to all of its processes; returns how they ended, which is the proof. Raises `WaitTimeout`."""
        ...

    def start(self) -> str:
        """Start it on its data, and wait until it answers; says how long that took. Raises `StartFailed`.

        Does nothing to one that runs.
        """
        ...


@dataclass(frozen=True)
class DatabaseParts:
    """What the store of a run is made from."""

    folder: Path  # of the run
    supervisor: "Supervisor"
    next_port: Callable[[], int]
    postgres: "Postgres | None" = None


class DatabaseKind(Protocol):
    """A kind of store: how a run has one, and how its processes reach it."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def has_server(self) -> bool:
        """Whether a server is behind it."""
        ...

    def address(self, folder: Path) -> str:
        """Where the store of a run is reached."""
        ...

    def provide(self, parts: DatabaseParts) -> AbstractContextManager[Service | None]:
        """The store of a run, there for the length of the `with`; its server, if it has one.

        Raises `EnvironmentFailure`.
        """
        ...

    def connect(self, address: str) -> Database:
        """The store, for one process. Raises `DatabaseError`."""
        ...

    def inputs(self, address: str) -> InputTable:
        """Its table of inputs, for one process; connects when first asked. Raises `DatabaseError` if it has none."""
        ...
