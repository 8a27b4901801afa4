"""The promises of a run: the evidence that it will leave. They are decided before the run begins.

`fencepost check` compares the tables of the run with its promises. It needs no other knowledge of the pipeline, the
client or the cluster. The promises are in `run.toml`, under `[run.promises]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.vocabulary import Isolation, Role

SEGMENTS, FETCH, NO_WITNESS = "segments", "fetch", "none"
FINAL_JOURNAL = "final-"
"""The prefix of the names of final readers' journals."""
STORE_READER = f"{FINAL_JOURNAL}store"
"""The journal of the final reader of a database's tables."""
HISTORY_FILE = "history.jsonl"
"""The clients' own history, in the run folder."""
SENTINELS, OFFSETS = "sentinels", "offsets"


@dataclass(frozen=True)
class ReaderPromise:
    """An observer or a final reader: the topics that it reads to their end, and its isolation level."""

    journal: str
    role: str  # harness.model.vocabulary.Role: observer or final
    isolation: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Promises:
    """The evidence of a run."""

    journaled: tuple[
        str, ...
    ] = ()  # the stages whose workers keep journals with the input ranges that they commit
    witness: str = NO_WITNESS  # how the broker logs are read: segments, fetch, none
    internal_logs: tuple[str, ...] = ()  # the internal topics whose logs are read as well
    transactions: bool = True  # a stage writes in transactions
    offsets_within: bool = True  # a stage commits the offsets of its group in its transactions
    replicas: bool = False  # the log of every replica is read, not only the leader's
    ends: str = SENTINELS  # how the end of a partition is known: sentinels, offsets
    readers: tuple[ReaderPromise, ...] = ()
    broken_premises: tuple[
        str, ...
    ] = ()  # the premises that faults of the run break; checks on them are left out
    tables: tuple[str, ...] = ()  # the tables of databases, which are in no broker log
    free_stages: tuple[str, ...] = ()  # the stages whose inputs have no expected outputs
    history: bool = False  # the operations of the clients are in `HISTORY_FILE` as well
    one_clock: bool = True  # brokers and clients run on one machine


OFFSETS_TOPIC, TRANSACTIONS_TOPIC = INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


def final_readers(topics: Sequence[str]) -> tuple[ReaderPromise, ...]:
    """Return the two final readers of the topics, one for each isolation level."""
    return tuple(
        ReaderPromise(f"{FINAL_JOURNAL}{level.value}", Role.FINAL.value, level.value, tuple(topics))
        for level in Isolation
    )


def store_reader(tables: Sequence[str]) -> ReaderPromise:
    """Return the final reader of a database's tables."""
    return ReaderPromise(STORE_READER, Role.FINAL.value, Isolation.READ_COMMITTED.value, tuple(tables))


def observer(topics: Sequence[str]) -> ReaderPromise:
    """Return the observer, which reads the outputs during the run."""
    return ReaderPromise("observer-1", Role.OBSERVER.value, Isolation.READ_COMMITTED.value, tuple(topics))
