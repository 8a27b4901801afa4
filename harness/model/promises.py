"""What a run promises: the evidence that it will leave, stated before it begins.

Whoever judges the run holds its tables against this, and against nothing that he knows of a certain pipeline,
client or cluster. It stands in `run.toml`, under `[run.promises]`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.common.toml_tables import read_table
from harness.model.vocabulary import Isolation, Role

SEGMENTS, FETCH, NO_WITNESS = "segments", "fetch", "none"
FINAL_JOURNAL = "final-"
"""How the names of final readers' journals begin."""
STORE_READER = f"{FINAL_JOURNAL}store"
"""The journal of the final reader of a store's tables."""
HISTORY_FILE = "history.jsonl"
"""In the run's folder."""
SENTINELS, OFFSETS = "sentinels", "offsets"


@dataclass(frozen=True)
class ReaderPromise:
    """A reader of the run's own: which topics it reads whole, and at which isolation."""

    journal: str
    role: str  # harness.model.vocabulary.Role: observer or final
    isolation: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Promises:
    """The evidence of a run."""

    journaled: tuple[
        str, ...
    ] = ()  # the stages whose workers keep journals, and state the ranges that they commit
    witness: str = NO_WITNESS  # how the brokers' logs are read: segments, fetch, none
    internal_logs: tuple[str, ...] = ()  # the internal topics whose logs are read as well
    transactions: bool = True  # its stages write in transactions
    offsets_within: bool = True  # and move their groups' offsets in them
    replicas: bool = False  # the log of every replica, and not of the leader alone
    ends: str = SENTINELS  # how the end of a partition is known
    readers: tuple[ReaderPromise, ...] = ()
    broken_premises: tuple[
        str, ...
    ] = ()  # what the faults of the run break: checks that rest on it are not made
    tables: tuple[str, ...] = ()  # of a store: they stand in no broker's log
    free_stages: tuple[str, ...] = ()  # those whose inputs have to lead to nothing
    history: bool = False  # what its clients told stands in `HISTORY_FILE` as well
    one_clock: bool = True  # brokers and clients run on one machine

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Promises":
        """As `run.toml` has it. Raises TypeError, KeyError."""
        lists = ("journaled", "internal_logs", "broken_premises", "tables", "free_stages")
        readers = (
            read_table(ReaderPromise, reader, topics=tuple(reader["topics"])) for reader in table["readers"]
        )
        columns = {name: tuple(table[name]) for name in lists}
        return read_table(cls, table, readers=tuple(readers), **columns)


INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


def final_readers(topics: Sequence[str]) -> tuple[ReaderPromise, ...]:
    """The two final readers, one at each isolation level, of every topic."""
    return tuple(
        ReaderPromise(f"{FINAL_JOURNAL}{level.value}", Role.FINAL.value, level.value, tuple(topics))
        for level in Isolation
    )


def store_reader(tables: Sequence[str]) -> ReaderPromise:
    """The final reader of a store's tables."""
    return ReaderPromise(STORE_READER, Role.FINAL.value, Isolation.READ_COMMITTED.value, tuple(tables))


def observer(topics: Sequence[str]) -> ReaderPromise:
    """The one that reads the outputs while the run goes on."""
    return ReaderPromise("observer-1", Role.OBSERVER.value, Isolation.READ_COMMITTED.value, tuple(topics))
