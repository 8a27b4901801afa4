"""Every small history, in one Spark job, against definitions in plain Python that stand beside it.

Each history is a run, smallest first, so that the first difference is already minimal. Five families:
all transactions by outcome, fate of each part, offsets and a read; all orders of data and markers in
one partition; all ways to take two inputs in up to three transactions; all ways to read a small log in up to
three steps; all ways to claim inputs of which some were given. Three more, of the brokers' log, stand in
`small_logs`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import small_logs
from histories import History, write
from pyspark.sql import SparkSession

from checkers.judge import StoredRun, judge
from harness.verdict import Judgement

Found = dict[str, int]


@dataclass(frozen=True)
class Txn:
    """A transaction that takes one input or two, and what became of it."""

    takes: tuple[int, ...]
    outcome: str  # ok, fail, info, or killed: info, and the commit was never invoked
    fates: tuple[tuple[str, str], ...]  # of its output in each topic: commit, abort, open
    offsets: str  # fate of its offset commit; "" if it sent none
    listed: bool = True  # the transaction log still lists what is open
    polled: bool = False  # an observer, promised read committed, is given its record in x


def transactions() -> Iterator[tuple[Txn, ...]]:
    """One transaction with every circumstance; then two with fewer."""
    outcomes, fates = ("ok", "fail", "info", "killed"), ("commit", "abort", "open")
    for outcome, x, offsets, polled, listed in product(
        outcomes, fates, ("", "commit", "abort"), (False, True), (True, False)
    ):
        if x != "open" and not listed:
            continue
        yield (Txn((0,), outcome, (("x", x),), offsets, listed, polled),)
    for outcome, x, y, offsets, listed in product(
        outcomes, fates, fates, ("", "commit", "abort"), (True, False)
    ):
        if "open" not in (x, y) and not listed:
            continue
        yield (Txn((0,), outcome, (("x", x), ("y", y)), offsets, listed),)
    for first, x, polled in product(outcomes[:3], fates, (False, True)):
        for second, z, read in product(outcomes[:3], fates, (False, True)):
            one = Txn((0,), first, (("x", x),), "abort" if x == "open" else x, True, polled)
            yield one, Txn((1,), second, (("x", z),), "abort" if z == "open" else z, True, read)


def inputs() -> Iterator[tuple[Txn, ...]]:
    """Two inputs, taken in up to three transactions."""
    one = [
        Txn(takes, outcome, (("x", fate),), fate)
        for takes in ((0,), (1,), (0, 1))
        for outcome, fate in (("ok", "commit"), ("fail", "abort"))
    ]
    for length in (1, 2, 3):
        yield from product(one, repeat=length)


def draw(txns: tuple[Txn, ...]) -> History:
    """The history of these transactions, one after the other, each by a producer of its own."""
    h = History()
    h.feed(2)
    for number, txn in enumerate(txns):
        fates = dict(txn.fates)
        pending = "open" in fates.values()
        h.take(
            *txn.takes,
            gives="".join(fates),
            fates=fates,
            outcome="info" if txn.outcome == "killed" else txn.outcome,
            offsets_fate=txn.offsets,
            pid=number + 1,
            worker=f"w{number}",
            state="Ongoing" if pending and txn.listed else "CompleteCommit",
            **({"commit_ns": None} if txn.outcome == "killed" else {}),
        )
        if txn.polled:
            values = [e for e, fate in zip(h.entries["x"], h.fates("x"), strict=True) if fate is not None]
            h.observe("x", h.entries["x"].index(values[-1]))
    return h


def defined(txns: tuple[Txn, ...]) -> Found:
    """What the definitions of the anomalies say, in so many words."""
    found: Counter[str] = Counter()
    settled = [_settled(txn) for txn in txns]
    stuck = dict.fromkeys("xy", False)  # the last stable offset of the topic stands below what follows
    open_below = dict.fromkeys("xy", False)
    for txn, end in zip(txns, settled, strict=True):
        fates = dict(txn.fates)
        unasked = txn.outcome in ("fail", "killed")
        judged = {fate for fate in fates.values() if fate != "open" or not txn.listed}
        found["torn-transaction"] += len(judged) > 1
        found["lost-commit"] += txn.outcome == "ok" and "abort" in (*fates.values(), txn.offsets)
        found["ghost-commit"] += unasked and "commit" in (*fates.values(), txn.offsets)
        found["offset-output-mismatch"] += (txn.offsets == "abort" and "commit" in fates.values()) or (
            txn.offsets == "commit" and "abort" in fates.values()
        )
        for topic, fate in fates.items():
            polled = topic == "x" and txn.polled
            stuck[topic] |= fate == "open"
            given = fate == "commit" and not stuck[topic]
            for _ in txn.takes:
                found["lost-write"] += end == "committed" and not given and not stuck[topic]
                found["aborted-read"] += txn.outcome == "fail" and given
                found["hanging-transaction"] += fate == "open" and not txn.listed
            found["aborted-read"] += txn.outcome == "fail" and polled
            found["dirty-read"] += polled and fate != "commit"
            found["read-above-lso"] += polled and open_below[topic]
            open_below[topic] |= fate == "open"
            stays = any(dict(t.fates).get(topic) == "open" for t in txns)
            found["unseen"] += (txn.outcome == "ok" and not given and not polled and not stays) * len(
                txn.takes
            )
    commits = [max(t.takes) + 1 for t in txns if t.offsets == "commit"]
    found["group-offset-regression"] = sum(b < a for a, b in pairwise(commits))
    ranges = sorted((min(t.takes), max(t.takes) + 1) for t in txns if t.offsets == "commit")
    found["overlapping-commit"] = sum(
        any(end > first for _, end in ranges[:n]) for n, (first, _) in enumerate(ranges)
    )
    for at in (0, 1):
        outputs = sum(at in t.takes and dict(t.fates)["x"] == "commit" for t in txns)
        found["reprocessed-input"] += outputs > 1
        found["lost-input"] += bool(commits) and at < commits[-1] and outputs == 0
    return {name: count for name, count in found.items() if count}


def _settled(txn: Txn) -> str:
    if txn.outcome in ("ok", "fail"):
        return "committed" if txn.outcome == "ok" else "aborted"
    left = {*dict(txn.fates).values(), txn.offsets}
    return "committed" if "commit" in left else "aborted" if "abort" in left else "open"


Entry = tuple[str, int]


def logs() -> Iterator[tuple[Entry, ...]]:
    """Every order of up to four entries of two producers in one partition."""
    entries = [(kind, pid) for kind in ("data", "commit", "abort") for pid in (1, 2)]
    for length in (1, 2, 3, 4):
        for log in product(entries, repeat=length):
            if any(kind == "data" for kind, _ in log):
                yield log


def draw_log(log: tuple[Entry, ...]) -> History:
    """Each data record is a transaction whose client was told nothing; an observer is given all of them."""
    h = History()
    h.feed(1)
    h.take(0, gives="y", pid=9, worker="u")
    h.alter("expected", lambda row: row | {"topic": "y", "slot": "y"})
    for kind, pid in log:
        if kind != "data":
            h.mark("x", pid, kind)
            continue
        op = h.op(f"w{pid}", "txn", "info")
        at = h.put("x", f"{op.name}:0", pid, digest=7)
        h.send(op, "x", at)
        h.observe("x", at)
        h.state(pid, "CompleteCommit")
    return h


def defined_log(log: tuple[Entry, ...]) -> Found:
    """The fate of a record is the first marker of its producer above it."""
    fates = []
    for at, (kind, pid) in enumerate(log):
        if kind == "data":
            fates.append(next((k for k, p in log[at + 1 :] if p == pid and k != "data"), "open"))
    found = {
        "dirty-read": sum(f != "commit" for f in fates),
        "hanging-transaction": fates.count("open"),
        "read-above-lso": len(fates) - fates.index("open") - 1 if "open" in fates else 0,
    }
    return {name: count for name, count in found.items() if count}


Steps = tuple[tuple[int, bool], ...]
"""Offsets in the order in which they were given, and whether each came in the same poll as the one before."""
VISIBLE = (0, 1, 3)


def reads() -> Iterator[Steps]:
    """Up to three steps through a log of two records, a marker, and a record."""
    one = list(product(range(4), (False, True)))
    for length in (1, 2, 3):
        yield from (steps for steps in product(one, repeat=length) if not steps[0][1])


def draw_reads(steps: Steps) -> History:
    """An observer takes them; at the marker it is given a record that nobody else has seen."""
    h = History()
    h.feed(3)
    h.take(0, 1)
    h.take(2)
    op = None
    for at, joined in steps:
        if op is None or not joined:
            op = h.op("o", "poll")
        value = h.entries["x"][at].get("value", "u:0:0")
        h.poll(op, "x", at, value, role="observer")
    return h


def _between(before: int, at: int) -> bool:
    """Whether a visible record stands between two offsets."""
    return any(before < offset < at for offset in VISIBLE)


def defined_reads(steps: Steps) -> Found:
    """Forward, and over no visible record; and what the final reader was not given has vanished."""
    found: Counter[str] = Counter()
    polls: list[list[int]] = []
    for at, joined in steps:
        polls = [*polls[:-1], [*polls[-1], at]] if joined else [*polls, [at]]
    for poll in polls:
        back = any(at <= before for before, at in pairwise(poll))
        found["int-nonmonotonic-poll"] += back
        due = sum(poll[0] < offset <= poll[-1] for offset in VISIBLE)
        found["int-poll-skip"] += not back and due > len(poll) - 1
    for before, after in pairwise(polls):
        found["nonmonotonic-poll"] += after[0] <= before[-1]
        found["poll-skip"] += _between(before[-1], after[0])
    found["vanished"] = [at for at, _ in steps].count(2)
    return {name: count for name, count in found.items() if count}


@dataclass(frozen=True)
class Claim:
    """Inputs that were given, and those that an operation claims."""

    given: tuple[int, ...]
    first: int
    following: int
    outcome: str
    fate: str


INPUTS = (0, 3, 4)  # an aborted record and its marker stand between


def claims() -> Iterator[Claim]:
    """Every subset of the inputs, every range, and every end of its operation."""
    subsets = [
        tuple(s for s, held in zip(INPUTS, bits, strict=True) if held) for bits in product((0, 1), repeat=3)
    ]
    ends = (("ok", "commit"), ("fail", "abort"), ("info", "commit"), ("info", "abort"))
    for given, first, following, (outcome, fate) in product(subsets, INPUTS, range(1, 6), ends):
        if first < following:
            yield Claim(given, first, following, outcome, fate)


def draw_claim(claim: Claim) -> History:
    """A worker polls them, and commits offsets alone; nothing is due."""
    h = History()
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.feed(2)
    h.alter("expected", lambda row: None if row["offset"] else row)
    for at in claim.given:
        h.poll(h.op("w", "poll"), "a", at, h.entries["a"][at]["value"])
    span = (claim.first, claim.following)
    h.take(outcome=claim.outcome, fate=claim.fate, gives="", claim=span)
    return h


def defined_claim(claim: Claim) -> Found:
    """An input that is claimed, and above all that was given; where nothing was, the polls prove nothing."""
    if not claim.given:
        return {}
    beyond = [
        at for at in INPUTS if claim.first <= at < claim.following and at > max(claim.given, default=-1)
    ]
    return {"premature-offset": 1} if beyond and claim.fate == "commit" else {}


ONLY = {"claims": {"premature-offset"}}
"""Families in which other anomalies are as they may be."""


@dataclass(frozen=True)
class Small:
    """A history, and what must be said of it; `what` it is drawn from."""

    family: str
    history: History
    meant: Found
    what: object

    def differs(self, judgement: Judgement) -> str | None:
        """What is said of it otherwise."""
        said = {
            name: anomaly.count
            for name, anomaly in judgement.anomalies.items()
            if name in ONLY.get(self.family, {name})
        }
        return None if said == self.meant else f"{self.what}: judged {said}, defined {self.meant}"


FAMILIES: dict[str, tuple[Callable[[], Iterable[Any]], Callable[[Any], History], Callable[[Any], Found]]] = {
    "transactions": (transactions, draw, defined),
    "inputs": (inputs, draw, defined),
    "logs": (logs, draw_log, defined_log),
    "partitions": (small_logs.partitions, small_logs.draw_partition, small_logs.defined_partition),
    "states": (small_logs.states, small_logs.draw_states, small_logs.defined_states),
    "marked": (small_logs.marked, small_logs.draw_marked, small_logs.defined_marked),
    "reads": (reads, draw_reads, defined_reads),
    "claims": (claims, draw_claim, defined_claim),
}
"""Each with what it is made of, how it is drawn, and how it is defined."""


def smalls() -> list[Small]:
    """All of all families."""
    return [
        Small(family, draws(one), defines(one), one)
        for family, (every, draws, defines) in FAMILIES.items()
        for one in every()
    ]


def store(smalls: Sequence[Small], folder: Path, first: int = 0) -> list[StoredRun]:
    """The runs of one store, numbered from `first`."""
    write(folder, [(run, small.history) for run, small in enumerate(smalls, first)], log=True)
    return [StoredRun(run, folder) for run in range(first, first + len(smalls))]


@pytest.fixture(scope="module")
def differences(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By family, each history that is judged otherwise than it is defined, smallest first."""
    every = smalls()
    judged = judge(spark, store(every, tmp_path_factory.mktemp("store")), examples=1)
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for run, small in enumerate(every):
        if difference := small.differs(judged[run]):
            found[small.family].append(difference)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_every_small_history_is_judged_as_it_is_defined(
    family: str, differences: dict[str, list[str]]
) -> None:
    assert not differences[family], f"{len(differences[family])} differ, first: {differences[family][0]}"
