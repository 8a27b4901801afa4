"""The interface of a database beside Kafka, for stages that use it and for the final reader.

A database has two kinds of tables for outputs. A table of effects has one row per effect. The row names the attempt and
the inputs that it comes from, as the headers of an output in Kafka do. A table of states has one row per key, which
counts the changes of that key.

A database also stores how far the inputs of each group are applied, in the same transaction as the outputs. So it
applies each input once (Kleppmann, Designing Data-Intensive Applications, chapter 11).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.model.pipeline import TopicPartition

if TYPE_CHECKING:
    from harness.environment.postgres import Postgres
    from harness.processes.spawn import Supervisor


@dataclass(frozen=True)
class SideEffect:
    """An output in a table of effects."""

    table: str
    value: str  # the name of the attempt
    output_name: str
    sources: str  # its inputs, in the format of an output's header
    key: bytes | None
    content: bytes | None


@dataclass(frozen=True)
class KeyState:
    """The state of a key."""

    key: bytes
    content: bytes | None
    changes: int  # how often the state was changed


class DatabaseError(Exception):
    """A call failed, and nothing took effect."""


class CommitUnknown(DatabaseError):
    """It is not known whether the transaction took effect."""


class PositionConflict(DatabaseError):
    """The stored position differs from the one that this process knows, because another process has moved it."""


class DatabaseTransaction(Protocol):
    """A transaction: all its changes take effect, or none. Each call raises `DatabaseError`."""

    def add(self, effect: SideEffect) -> None:
        """Add an effect."""
        ...

    def add_once(self, effect: SideEffect) -> bool:
        """Add an effect, unless there is one with the same inputs and output name. Return whether it was added."""
        ...

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        """Set the state of a key, and count the change."""
        ...

    def advance(self, group: str, topic_partition: TopicPartition, old: int | None, new: int) -> None:
        """Move the stored position of a partition from `old` to `new`: the inputs below `new` are applied.

        `old` is None if no position is stored yet. Raises `PositionConflict` if the stored position is not `old`.
        """
        ...


class Database(Protocol):
    """A connection of one process to a database."""

    def position(self, group: str, topic_partition: TopicPartition) -> int | None:
        """Return the offset below which the inputs are applied, or None if none is. Raises `DatabaseError`."""
        ...

    def transaction(self) -> AbstractContextManager[DatabaseTransaction]:
        """Open a transaction. The end of the `with` block commits it, and an exception rolls it back.

        Raises `DatabaseError`, and `CommitUnknown`.
        """
        ...

    def effects(self, table: str) -> Iterable[tuple[int, SideEffect]]:
        """Yield the rows of a table of effects with their numbers, from 0, in the order in which they were written."""
        ...

    def states(self, table: str) -> Iterable[tuple[int, KeyState]]:
        """Yield the rows of a table of states with their numbers, from 0."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True)
class NewTableRow:
    """A row to be written into a table of inputs."""

    value: str  # the name of the attempt
    key: bytes | None
    content: bytes | None


@dataclass(frozen=True)
class TableRow(NewTableRow):
    """A row of a table of inputs."""

    number: int  # its offset; numbers follow the order of writing and not of commits
    done: bool = False  # a worker has marked it, or the shared position is beyond it


Range = tuple[int, int]
"""Row numbers from the first to below the second."""


class InputTable(Protocol):
    """A connection of one process to a table whose rows are inputs (an outbox).

    A row is visible after the transaction that wrote it has committed. The first call begins a transaction. Each call
    raises `DatabaseError`; then the transaction has ended without effect. The next call begins another transaction,
    and reconnects if the connection broke.

    There are two ways to take rows. `take` and `mark` lock and mark single rows. `take_after_position` and
    `move_position` use one position that all workers share.
    """

    def write(self, rows: Sequence[NewTableRow]) -> list[int]:
        """Write an order and an outbox row for each row, in the transaction. Return the numbers of the outbox rows."""
        ...

    def take(self, max_records: int) -> list[TableRow]:
        """Lock and return the first rows that are neither done nor locked by another transaction."""
        ...

    def take_after_position(self, max_records: int) -> list[TableRow]:
        """Lock the shared position and return the rows after it. Return none while another transaction has the lock."""
        ...

    def mark(self, numbers: Sequence[int]) -> None:
        """Mark rows as done."""
        ...

    def move_position(self, number: int) -> None:
        """Set the shared position to this row number."""
        ...

    def commit(self) -> None:
        """Commit the transaction. Raises `CommitUnknown`, too."""
        ...

    def roll_back(self) -> None:
        """Roll back. It raises nothing, because the server rolls back when a connection breaks."""
        ...

    def count_pending(self, within: Range | None = None) -> int:
        """Count the visible rows that are not done, in a range of numbers or in the whole table."""
        ...

    def read_all(self) -> tuple[list[TableRow], int]:
        """Return all visible rows in the order of their numbers, and the end: a number above all assigned numbers."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Service(Protocol):
    """A database server. It is a child process of the run, and a fault may kill it."""

    @property
    def name(self) -> str:
        """Return the name of the database."""
        ...

    @property
    def is_healthy(self) -> bool:
        """Return whether the server runs, or was killed by a fault."""
        ...

    def kill(self) -> str:
        """Send SIGKILL to all processes of the server. Return how they ended, as the proof of the fault.

        Raises `WaitTimeout`.
        """
        ...

    def start(self) -> str:
        """Start the server on its data, and wait until it answers. Return a text that says how long that took.

        Does nothing if the server runs. Raises `StartFailed`.
        """
        ...


@dataclass(frozen=True)
class DatabaseParts:
    """The parts from which a run creates its database."""

    folder: Path  # the run folder
    supervisor: "Supervisor"
    next_port: Callable[[], int]
    postgres: "Postgres | None" = None


class DatabaseKind(Protocol):
    """A kind of database: how a run creates one, and how its processes connect to it."""

    @property
    def name(self) -> str:
        """Return the name of the database."""
        ...

    @property
    def has_server(self) -> bool:
        """Return whether the database has a server process."""
        ...

    def address(self, folder: Path) -> str:
        """Return the address of the database of a run."""
        ...

    def provide(self, parts: DatabaseParts) -> AbstractContextManager[Service | None]:
        """Create the database of a run for a `with` block. Yields its server, or None if it has none.

        Raises `EnvironmentFailure`.
        """
        ...

    def connect(self, address: str) -> Database:
        """Connect to the database. Raises `DatabaseError`."""
        ...

    def inputs(self, address: str) -> InputTable:
        """Return the table of inputs, which connects at its first call.

        Raises `DatabaseError` if this kind of database has none.
        """
        ...


Backlog = Callable[[str, Range | None], int | None]
"""Counts the visible rows of a table that are not done, within a range of numbers. None: the count is not known now."""


def no_backlog(table: str, within: Range | None) -> int:
    """Return 0: the `Backlog` of a pipeline that reads no table."""
    return 0


class DatabaseBacklog:
    """A `Backlog` that counts rows of tables. `tables` is by name of the table."""

    def __init__(self, tables: Mapping[str, InputTable]) -> None:
        self._tables = tables

    def __call__(self, table: str, within: Range | None) -> int | None:
        try:
            return self._tables[table].count_pending(within)
        except DatabaseError:
            return None

    def close(self) -> None:
        for inputs in self._tables.values():
            inputs.close()
