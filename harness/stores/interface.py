"""What a store is to those who write into it and to who reads it at the end.

A store has two kinds of tables. One of effects: a row for each thing that was done, which names the attempt and the
inputs that it comes from, as an output in Kafka does in its headers. And one of state: a row for each key, which
counts how often it was changed. Beside them a store keeps how far each group's inputs are applied, in the same
transaction: that is how a store takes each input once (Kleppmann, Designing Data-Intensive Applications, chapter 11).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Effect:
    """Something that was done."""

    table: str
    value: str  # the name of the attempt
    slot: str  # which of its inputs' effects it is
    sources: str  # its inputs, as the header of an output has them
    key: bytes | None
    content: bytes | None


@dataclass(frozen=True)
class State:
    """What is known of a key."""

    key: bytes
    content: bytes | None
    changes: int  # how often it was changed


class StoreError(Exception):
    """The store could not do it, and nothing was done."""


class CommitUnknown(StoreError):
    """The store did not say whether the transaction took effect."""


class Overtaken(StoreError):
    """The inputs are not at the place where this process had left them: another has gone on."""


class StoreTransaction(Protocol):
    """All of it takes effect, or nothing. Each call raises `StoreError`."""

    def add(self, effect: Effect) -> None:
        """Do something."""
        ...

    def change(self, table: str, key: bytes, content: bytes | None) -> None:
        """Set the state of a key, and count the change."""
        ...

    def move(self, group: str, place: Place, known: int | None, following: int) -> None:
        """Say that the inputs below `following` are applied. Raises `Overtaken` where they were not at `known`."""
        ...


class Store(Protocol):
    """A store, opened by one process."""

    def position(self, group: str, place: Place) -> int | None:
        """How far the inputs of a partition are applied; None: none is. Raises `StoreError`."""
        ...

    def transaction(self) -> AbstractContextManager[StoreTransaction]:
        """Leaving the `with` commits; an exception rolls back. Raises `StoreError`, `CommitUnknown`."""
        ...

    def effects(self, table: str) -> Iterable[tuple[int, Effect]]:
        """The rows of a table of effects with their numbers, from 0, in the order in which they were written."""
        ...

    def states(self, table: str) -> Iterable[tuple[int, State]]:
        """The rows of a table of state with their numbers, from 0."""
        ...

    def close(self) -> None:
        """Be done with it."""
        ...


class StoreKind(Protocol):
    """A kind of store: how a run has one, and how its processes reach it."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def address(self, folder: Path) -> str:
        """Where the store of a run is reached."""
        ...

    def up(self, folder: Path) -> AbstractContextManager[None]:
        """The store of a run in that folder, there for the length of the `with`."""
        ...

    def connect(self, address: str) -> Store:
        """The store, for one process. Raises `StoreError`."""
        ...
