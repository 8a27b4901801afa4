"""Logs of partitions, and the definition of their anomalies.

There are three families: data and markers of several producers, which an observer reads; epochs and sequences of
producers; and records and markers compared with the completed transactions.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random

from tests.planted.words import Counts, nonzero, start_history, together
from tests.support.histories import History

KINDS = ("data", "commit", "abort")
Entry = tuple[str, int]  # kind, producer id


def logs() -> Iterator[tuple[Entry, ...]]:
    """Every order of up to four entries of two producers in one partition. The first one is of producer 1."""
    for length in (1, 2, 3, 4):
        for log in product(list(product(KINDS, (1, 2))), repeat=length):
            if log[0][1] == 1 and any(kind == "data" for kind, _ in log):
                yield log


def larger_log(rng: Random) -> tuple[Entry, ...]:
    """Up to 20 entries of up to four producers."""
    producers, ended = rng.randint(1, 4), rng.choice([0.3, 0.5, 0.7])
    kinds = rng.choices(KINDS, [1 - ended, ended / 2, ended / 2], k=rng.randint(5, 19))
    return tuple((kind, rng.randint(1, producers)) for kind in ["data", *kinds])


def draw_log(log: tuple[Entry, ...]) -> History:
    """Each data record is a transaction with outcome info. An observer reads all of them."""
    h = History()
    h.feed(1)
    h.transact(0, to="y", pid=9, worker="u")
    h.alter_expected(lambda row: row | {"topic": "y", "output_name": "y"})
    for kind, pid in log:
        if kind != "data":
            h.append_marker("x", pid, kind)
            continue
        op = h.op(f"w{pid}", "txn", "info")
        at = h.append("x", f"{op.name}:0", pid, digest=7)
        h.send(op, "x", at)
        h.observe("x", at)
    return h


def defined_log(log: tuple[Entry, ...]) -> Counts:
    fates = [_fate(log, at) for at, (kind, _) in enumerate(log) if kind == "data"]
    above = len(fates) - fates.index("open") - 1 if "open" in fates else 0
    return nonzero(
        dirty_read=sum(fate != "commit" for fate in fates),
        hanging_transaction=fates.count("open"),
        read_above_lso=above,
    )


def _fate(log: Sequence[Entry], at: int) -> str:
    """The fate of a record is the first marker of its producer above it."""
    return next((kind for kind, pid in log[at + 1 :] if pid == log[at][1] and kind != "data"), "open")


@dataclass(frozen=True)
class Written:
    """A batch of one record, or a marker."""

    kind: str
    epoch: int
    seq: int = -1
    pid: int = 7


BATCHES = [Written("data", epoch, seq) for epoch in (0, 1) for seq in (0, 1, 2)]
ENTRIES = [*BATCHES, Written("abort", 0), Written("abort", 1)]


def partitions() -> Iterator[tuple[Written, ...]]:
    """All logs of up to three entries. A run has several of them, and each log has its own producer."""
    for some in together([log for length in (1, 2, 3) for log in product(ENTRIES, repeat=length)]):
        yield tuple(replace(one, pid=7 + number) for number, log in enumerate(some) for one in log)


def larger_partition(rng: Random) -> tuple[Written, ...]:
    """A random log of up to three producers: mostly in order, with commits, and with sequences that wrap around."""
    right = rng.choice([0.6, 0.8, 1.0])
    state = {pid: (2, rng.choice([0, 2**31 - 3])) for pid in range(7, 7 + rng.randint(1, 3))}
    log = []
    for _ in range(rng.randint(6, 20)):
        pid = rng.choice(sorted(state))
        epoch, seq = state[pid]
        if rng.random() > right:
            epoch, seq = max(0, epoch + rng.choice([-2, -1, -1, 0, 1])), rng.randint(0, 4)
        elif rng.random() < 0.1:
            epoch, seq = epoch + 1, 0
        kind = rng.choice(["data", "data", "commit", "abort"])
        log.append(Written(kind, epoch, seq if kind == "data" else -1, pid))
        state[pid] = epoch, (seq + (kind == "data")) % 2**31
    return tuple(log)


def draw_partition(log: tuple[Written, ...]) -> History:
    h = start_history()
    for one in log:
        if one.kind == "data":
            h.append("y", None, one.pid, one.epoch, seq=one.seq)
        else:
            h.append_marker("y", one.pid, one.kind, one.epoch)
    return h


def defined_partition(log: tuple[Written, ...]) -> Counts:
    """Epochs and sequences are compared within one producer."""
    found: Counter[str] = Counter()
    for pid in {one.pid for one in log}:
        own = [one for one in log if one.pid == pid]
        data = [one for one in own if one.kind == "data"]
        entries = [(one.kind, pid) for one in own]
        given = _given_epochs(own)
        fated = [(one, own[:at], _fate(entries, at)) for at, one in enumerate(own) if one.kind == "data"]
        found.update(
            nonzero(
                epoch_regression=sum(
                    a.epoch < b.epoch and "data" in (a.kind, b.kind) for b, a in pairwise(own)
                ),
                sequence_violation=sum(
                    (a.epoch == b.epoch and a.seq != (b.seq + 1) % 2**31)
                    or (a.epoch > b.epoch and a.seq != 0)
                    for b, a in pairwise(data)
                ),
                hanging_transaction=sum(fate == "open" for _, _, fate in fated),
                zombie_write=sum(
                    fate == "commit"
                    and (any(before.epoch > one.epoch for before in below) or one.epoch != given[len(below)])
                    for one, below, fate in fated
                )
                + sum(
                    one.epoch != given[at]
                    for at, one in enumerate(own)
                    if one.kind != "data" and not _repeats(own, at)
                ),
            )
        )
    return dict(found)


def _repeats(own: Sequence[Written], at: int) -> bool:
    """Whether a marker repeats the entry before it, as a coordinator that moved writes it."""
    return (
        at > 0
        and own[at].kind != "data"
        and (own[at].kind, own[at].epoch) == (own[at - 1].kind, own[at - 1].epoch)
    )


def _given_epochs(own: Sequence[Written]) -> list[int]:
    """By entry, the epoch that its transaction has in the transaction log: the highest of the markers up to its own."""
    ends = [at for at, one in enumerate(own) if one.kind != "data" and not _repeats(own, at)]
    return [
        max(
            (own[end].epoch for end in ends if end <= min((e for e in ends if e >= at), default=-1)),
            default=-1,
        )
        for at in range(len(own))
    ]


@dataclass(frozen=True)
class Marked:
    """Records and markers of producers in topics, and the topics of each completed transaction."""

    log: tuple[tuple[str, int, str], ...]  # kind, producer id, topic
    completed: tuple[tuple[int, str], ...]  # producer id, topics


def marked() -> Iterator[Marked]:
    """One producer and one topic."""
    for length, completions in product((1, 2, 3), (0, 1, 2)):
        for kinds in product(("data", "abort"), repeat=length):
            yield Marked(tuple((kind, 7, "y") for kind in kinds), ((7, "y"),) * completions)


def larger_marked(rng: Random) -> Marked:
    """Up to three producers and two topics."""
    producers = range(7, 7 + rng.randint(1, 3))
    log = [
        (rng.choice(["data", "data", "abort"]), rng.choice(producers), rng.choice("yz")) for _ in range(20)
    ]
    completed = [(rng.choice(producers), rng.choice(["y", "z", "yz", ""])) for _ in range(rng.randint(0, 10))]
    return Marked(tuple(log[: rng.randint(4, 20)]), tuple(completed))


def draw_marked(case: Marked) -> History:
    h = start_history(outputs="xyz")
    for kind, pid, topic in case.log:
        if kind == "data":
            h.append(topic, None, pid)
        else:
            h.append_marker(topic, pid, kind)
    for pid, topics in case.completed:
        h.log_transaction(pid, topics, "Abort")
    return h


def defined_marked(case: Marked) -> Counts:
    found: Counter[str] = Counter()
    lacking = False
    for topic, pid in product("yz", {pid for _, pid, _ in case.log}):
        kinds = [kind for kind, *pid_and_topic in case.log if pid_and_topic == [pid, topic]]
        markers = len(kinds) - kinds.count("data")
        named = sum(own == pid and topic in topics for own, topics in case.completed)
        again = sum(b == a != "data" for b, a in pairwise(kinds))
        lacking |= markers - again > named and any(own == pid for own, _ in case.completed)
        found["unmarked-partition"] += "data" in kinds and markers < named
        still_open = [at for at, kind in enumerate(kinds) if not set(kinds[at:]) - {"data"}]
        found["hanging-transaction"] += len(still_open)
    if lacking:  # the transaction log is not whole: that a marker is not there proves nothing
        del found["unmarked-partition"]
    return {name: count for name, count in found.items() if count}
