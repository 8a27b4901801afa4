"""Transactions with inputs: every outcome, fate of outputs and of offsets, with and without a read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random

from tests.planted.late import LateMarkers
from tests.planted.words import Counts
from tests.support.histories import History

OUTCOMES, FATES = ("ok", "fail", "info", "killed"), ("commit", "abort", "open")


@dataclass(frozen=True)
class Txn:
    """A transaction that processes one input or more, with its outcome and fates."""

    takes: tuple[int, ...]
    outcome: str  # ok, fail, info, or killed: info, and the commit was never invoked
    fates: tuple[tuple[str, str], ...]  # of its outputs in each topic: commit, abort, open
    offsets: str  # fate of its offset commit; "" if it sent none
    listed: bool = True  # the transaction log still lists what is open
    polled: bool = False  # an observer, promised read committed, is given its last record in x


@dataclass(frozen=True)
class Txns:
    """Transactions in the order of their writes. `late` is the seed for the delays of markers; None: no delays."""

    txns: tuple[Txn, ...]
    inputs: int = 2
    late: int | None = None


def small() -> Iterator[Txns]:
    """One transaction with every combination of circumstances, then two with fewer."""
    for outcome, x, offsets, polled, listed in product(
        OUTCOMES, FATES, ("", "commit", "abort"), (False, True), (True, False)
    ):
        if x != "open" and not listed:
            continue
        yield Txns((Txn((0,), outcome, (("x", x),), offsets, listed, polled),))
    for outcome, x, y, offsets, listed in product(
        OUTCOMES, FATES, FATES, ("", "commit", "abort"), (True, False)
    ):
        if "open" not in (x, y) and not listed:
            continue
        yield Txns((Txn((0,), outcome, (("x", x), ("y", y)), offsets, listed),))
    for first, x, polled in product(OUTCOMES[:3], FATES, (False, True)):
        for second, z, read in product(OUTCOMES[:3], FATES, (False, True)):
            one = Txn((0,), first, (("x", x),), "abort" if x == "open" else x, True, polled)
            two = Txn((1,), second, (("x", z),), "abort" if z == "open" else z, True, read)
            yield Txns((one, two))


def inputs() -> Iterator[Txns]:
    """Two inputs, processed in up to three transactions."""
    one = [
        Txn(takes, outcome, (("x", fate),), fate)
        for takes in ((0,), (1,), (0, 1))
        for outcome, fate in (("ok", "commit"), ("fail", "abort"))
    ]
    for length in (1, 2, 3):
        yield from map(Txns, product(one, repeat=length))


def larger(rng: Random) -> Txns:
    """Up to 12 transactions over up to 10 inputs, in any order. Most end by their outcome, some do not."""
    count = rng.randint(2, 10)
    right, stays = rng.choice([0.5, 0.8, 1.0]), rng.choice([0.0, 0.1])
    txns = [_one(rng, count, right, stays) for _ in range(rng.randint(4, 12))]
    return Txns(tuple(txns), count, rng.randrange(1 << 30))


def larger_inputs(rng: Random) -> Txns:
    """Like `larger`, but each transaction ends by its outcome: only the inputs may be wrong."""
    made = larger(rng)
    txns = [
        replace(txn, takes=tuple(range(first, min(made.inputs, first + len(txn.takes)))))
        for txn, first in zip(made.txns, _onwards(rng, made), strict=True)
    ]
    ends = {"ok": "commit", "fail": "abort", "killed": "abort"}
    fates = [ends.get(txn.outcome) or rng.choice(FATES[:2]) for txn in txns]
    consistent = [
        replace(txn, fates=tuple((topic, fate) for topic, _ in txn.fates), offsets=fate)
        for txn, fate in zip(txns, fates, strict=True)
    ]
    return replace(made, txns=tuple(consistent))


def _onwards(rng: Random, made: Txns) -> Iterator[int]:
    """Where each begins: mostly where the one before it ended."""
    at = 0
    for txn in made.txns:
        at = at if rng.random() < 0.7 else rng.randrange(made.inputs)
        yield min(at, made.inputs - 1)
        at += len(txn.takes)


def _one(rng: Random, count: int, right: float, stays: float) -> Txn:
    first = rng.randrange(count)
    outcome = rng.choices(OUTCOMES, [5, 2, 2, 1])[0]
    end = {"ok": "commit", "info": rng.choice(FATES[:2])}.get(outcome, "abort")

    def fate() -> str:
        roll = rng.random()
        return "open" if roll < stays else end if roll < right else rng.choice(FATES[:2])

    fates = tuple((topic, fate()) for topic in rng.choice(["x", "x", "xy"]))
    offsets = "abort" if "open" in dict(fates).values() else fate()
    return Txn(
        takes=tuple(range(first, min(count, first + rng.randint(1, 3)))),
        outcome=outcome,
        fates=fates,
        offsets=rng.choice([offsets] * 5 + [""]).replace("open", "abort"),
        listed=rng.random() < 0.7 or "open" not in dict(fates).values(),
        polled=rng.random() < 0.2,
    )


def draw(case: Txns) -> History:
    """Each transaction has its own producer. Observers read after all transactions."""
    h = History() if case.late is None else LateMarkers(Random(case.late))
    h.feed(case.inputs)
    last = []
    for number, txn in enumerate(case.txns):
        fates = dict(txn.fates)
        pending = "open" in fates.values()
        ends = {*fates.values(), txn.offsets} - {"open", ""}
        decided = "CompleteAbort" if ends == {"abort"} else "CompleteCommit"
        op = h.transact(
            *txn.takes,
            to="".join(fates),
            fates=fates,
            outcome="info" if txn.outcome == "killed" else txn.outcome,
            offsets_fate=txn.offsets,
            pid=number + 1,
            worker=f"w{number}",
            state="Ongoing" if pending and txn.listed else decided,
            **({"commit_ns": None} if txn.outcome == "killed" else {}),
        )
        last.append(op.values[len(txn.takes) - 1])
    if isinstance(h, LateMarkers):
        h.settle()
    offsets = {entry.get("value"): at for at, entry in enumerate(h.entries["x"])}
    for number, txn in enumerate(case.txns):
        if txn.polled:
            h.poll(h.op(f"o{number}", "poll"), "x", offsets[last[number]], last[number], role="observer")
    return h


def defined(case: Txns) -> Counts:
    """The counts by the definitions of the anomalies."""
    txns = case.txns
    found: Counter[str] = Counter()
    settled = [_settled(txn) for txn in txns]
    stuck = dict.fromkeys("xy", False)  # the last stable offset of the topic stands below what follows
    open_below = dict.fromkeys("xy", False)
    for txn, end in zip(txns, settled, strict=True):
        fates, many = dict(txn.fates), len(txn.takes)
        unasked = txn.outcome in ("fail", "killed")
        counted_fates = {fate for fate in fates.values() if fate != "open" or not txn.listed}
        found["torn-transaction"] += len(counted_fates) > 1
        found["lost-commit"] += txn.outcome == "ok" and "abort" in (*fates.values(), txn.offsets)
        found["ghost-commit"] += unasked and "commit" in (*fates.values(), txn.offsets)
        found["offset-output-mismatch"] += (txn.offsets == "abort" and "commit" in fates.values()) or (
            txn.offsets == "commit" and "abort" in fates.values()
        )
        for topic, fate in fates.items():
            polled = topic == "x" and txn.polled
            stuck[topic] |= fate == "open"
            given = fate == "commit" and not stuck[topic]
            found["lost-write"] += (end == "committed" and not given and not stuck[topic]) * many
            found["phantom"] += (topic == "y" and fate == "commit") * many  # x alone is due
            found["aborted-read"] += (txn.outcome == "fail" and given) * many
            found["hanging-transaction"] += (fate == "open" and not txn.listed) * many
            found["aborted-read"] += txn.outcome == "fail" and polled
            found["dirty-read"] += polled and fate != "commit"
            found["read-above-lso"] += polled and (open_below[topic] or (fate == "open" and many > 1))
            open_below[topic] |= fate == "open"
            stays = any(dict(t.fates).get(topic) == "open" for t in txns)
            found["unseen"] += (txn.outcome == "ok" and not given and not stays) * (many - polled)
    commits = [max(t.takes) + 1 for t in txns if t.offsets == "commit"]
    found["group-offset-regression"] = sum(b < a for a, b in pairwise(commits))
    ranges = sorted((min(t.takes), max(t.takes) + 1) for t in txns if t.offsets == "commit")
    found["overlapping-commit"] = sum(
        any(end > first for _, end in ranges[:n]) for n, (first, _) in enumerate(ranges)
    )
    for at in range(case.inputs):
        visible = [topic for t in txns if at in t.takes for topic, fate in t.fates if fate == "commit"]
        found["reprocessed-input"] += sum(visible.count(topic) > 1 for topic in "xy")
        found["lost-input"] += bool(commits) and at < commits[-1] and "x" not in visible
    return {name: count for name, count in found.items() if count}


def _settled(txn: Txn) -> str:
    if txn.outcome in ("ok", "fail"):
        return "committed" if txn.outcome == "ok" else "aborted"
    left = {*dict(txn.fates).values(), txn.offsets}
    return "committed" if "commit" in left else "aborted" if "abort" in left else "open"
