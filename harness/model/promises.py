"""What a run must have, decided before it begins: evidence (promises), and events that must occur (goals).

`fencepost check` compares the tables of the run with its promises. It needs no other knowledge of the pipeline, the
client or the cluster. Goals and promises are stored: the promises are in `run.toml`, under `[run.promises]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.vocabulary import Exercise, Isolation, Role, outputs_in

SEGMENTS, FETCH, NO_WITNESS = "segments", "fetch", "none"
FINAL_JOURNAL = "final-"
"""The prefix of the names of final readers' journals."""
STORE_READER = f"{FINAL_JOURNAL}store"
"""The journal of the final reader of a database's tables."""
HISTORY_FILE = "history.jsonl"
"""The clients' own history, in the run folder."""
SENTINELS, OFFSETS = "sentinels", "offsets"


@dataclass(frozen=True)
class Goal:
    """An event that must occur in a run. If it does not, the run is unknown."""

    name: str
    counted: str  # a key of the verdict's coverage, which must be at least 1
    text: str  # what did not happen: "no transaction was aborted"
    remedy: str
    waived: str = ""  # why this run need not reach the goal: then it is only listed under `not_exercised`


def abort_goal(abort_share: float) -> Goal:
    """Require an aborted transaction: without one, nothing shows that aborted records stay hidden."""
    return Goal(
        name="aborted-read",
        counted="aborted",
        text="no transaction was aborted",
        remedy="a longer --time-limit or a higher abort-share helps",
        waived="" if abort_share > 0 else "no transaction is aborted on purpose: abort-share is 0",
    )


def transactions_goal() -> Goal:
    """Require a committed transaction of a custom pipeline that promises exactly-once."""
    return Goal(
        name="transactions",
        counted="committed",
        text="the pipeline promises exactly-once, and none of its transactions was seen to commit",
        remedy="if a stage needs none, set transactions = false in its [[stage]]; else read its log in workers/",
    )


def optional_abort_goal() -> Goal:
    """Look for an aborted transaction of a custom pipeline. A run without one may be valid, but its verdict says so."""
    text = (
        "none of the pipeline's transactions was aborted, so nothing shows that aborted outputs stay hidden"
    )
    remedy = "--nemesis kill-instance@ongoing kills an instance while a transaction is open"
    return Goal("aborted-read", "aborted", text, remedy, waived=f"{text}: {remedy}")


def output_goal(topic: str, text: str) -> Goal:
    """Require an output in a topic. `text` is the sentence for a run without one."""
    return Goal(
        name=f"outputs in {topic}",
        counted=outputs_in(topic),
        text=text,
        remedy="a longer --time-limit or a higher --rate helps",
    )


def independent_stage_goals() -> tuple[Goal, ...]:
    """Return the goals of a workload with stages that send and poll independently.

    A transaction must poll a record of another transaction, and a key must be retired.
    """
    remedy = "a longer --time-limit helps"
    return (
        Goal(
            name="read within a transaction",
            counted=Exercise.READ_WITHIN.value,
            text="no committed transaction read a record of another one",
            remedy=remedy,
        ),
        Goal(name="retired key", counted=Exercise.GIVEN_UP.value, text="no key was retired", remedy=remedy),
    )


def several_topics_goal() -> Goal:
    """Require a transaction with inputs of several topics."""
    return Goal(
        name="several-topics",
        counted=Exercise.SEVERAL_TOPICS.value,
        text="no transaction covered inputs of more than one topic",
        remedy="a higher --rate or a larger --txn-size helps",
    )


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
