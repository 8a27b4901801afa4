"""The steps of readers and workers through a log, and the definition of their anomalies."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random

from tests.planted.words import Counts
from tests.support.histories import History

Steps = tuple[tuple[int, bool], ...]
"""Offsets in the order of delivery, and whether each is in the same poll as the one before."""


@dataclass(frozen=True)
class Reads:
    """A log and the steps of each reader. The log is a list of transactions: number of records, and if committed."""

    log: tuple[tuple[int, bool], ...]
    readers: tuple[Steps, ...]


SMALL = ((2, True), (1, True))


def small() -> Iterator[Reads]:
    """Up to three steps through a log of two records, a marker, and a record."""
    one = list(product(range(4), (False, True)))
    for length in (1, 2, 3):
        yield from (Reads(SMALL, (steps,)) for steps in product(one, repeat=length) if not steps[0][1])


def larger(rng: Random) -> Reads:
    """Up to 15 steps of up to three readers through up to eight transactions, at visible records and markers."""
    log = tuple((rng.randint(1, 4), rng.random() < 0.7) for _ in range(rng.randint(2, 8)))
    readers = rng.randint(1, 3)
    return Reads(log, tuple(_walk(rng, log) for _ in range(readers)))


def _walk(rng: Random, log: tuple[tuple[int, bool], ...]) -> Steps:
    visible, others = visible_and_marker_offsets(log)
    right = rng.choice([0.7, 0.9, 1.0])
    steps: list[tuple[int, bool]] = []
    ahead = list(visible)
    for _ in range(rng.randint(1, 15)):
        onwards = ahead and rng.random() < right
        at = ahead[0] if onwards else rng.choice([*visible, *others, others[-1]])
        ahead = [offset for offset in visible if offset > at]
        steps.append((at, bool(steps) and rng.random() < 0.4))
    return tuple(steps)


def visible_and_marker_offsets(log: tuple[tuple[int, bool], ...]) -> tuple[list[int], list[int]]:
    """The offsets of the visible records, and those of the markers."""
    visible, markers, at = [], [], 0
    for many, committed in log:
        visible += range(at, at + many) if committed else ()
        markers.append(at + many)
        at += many + 1
    return visible, markers


def draw(case: Reads) -> History:
    """Have each observer take its steps. At a marker, it reads a record that does not exist."""
    h = History(expects="xy")
    h.feed(sum(many for many, _ in case.log))
    h.alter_expected(
        lambda row: row if row["output_name"] == "y" or _is_committed(case.log, row["offset"]) else None
    )
    at = 0
    for many, committed in case.log:
        taken = range(at, at + many)
        if committed:
            h.transact(*taken, to="xy")
        else:
            h.transact(*taken, outcome="fail")
            h.transact(*taken, to="y")
        at += many
    for number, steps in enumerate(case.readers):
        op = None
        for offset, joined in steps:
            if op is None or not joined:
                op = h.op(f"o{number}", "poll")
            value = h.entries["x"][offset].get("value", f"u:0:{offset}")
            h.poll(op, "x", offset, value, role="observer")
    return h


def _is_committed(log: tuple[tuple[int, bool], ...], offset: int) -> bool:
    """Whether the output of an input in `x` is committed."""
    return [committed for many, committed in log for _ in range(many)][offset]


def defined(case: Reads) -> Counts:
    """Forward, and over no visible record; and what the final reader was not given has vanished.

    What has vanished makes up, inside a poll, for a record that was passed over: nothing is said of that.
    """
    found: Counter[str] = Counter()
    visible, markers = visible_and_marker_offsets(case.log)
    for steps in case.readers:
        polls: list[list[int]] = []
        for at, joined in steps:
            polls = [*polls[:-1], [*polls[-1], at]] if joined else [*polls, [at]]
        for poll in polls:
            back = any(at <= before for before, at in pairwise(poll))
            found["int-nonmonotonic-poll"] += back
            due = sum(poll[0] < offset <= poll[-1] for offset in visible)
            found["int-poll-skip"] += not back and due > len(poll) - 1
        for before, after in pairwise(polls):
            found["nonmonotonic-poll"] += after[0] <= before[-1]
            found["poll-skip"] += any(before[-1] < offset < after[0] for offset in visible)
        found["vanished"] += sum(at in markers for at, _ in steps)
    return {name: count for name, count in found.items() if count}


Step = int | tuple[int, int, str, str]
"""An input that is given, or a claim: its first input, the offset after it, the outcome, the fate."""


@dataclass(frozen=True)
class Claims:
    """Inputs (true: committed), and the deliveries and claims of each worker, in order."""

    inputs: tuple[bool, ...]
    workers: tuple[tuple[Step, ...], ...]


ENDS = (("ok", "commit"), ("fail", "abort"), ("info", "commit"), ("info", "abort"))


def claims() -> Iterator[Claims]:
    """Three inputs and an aborted one: every subset of deliveries, every range, every end."""
    offsets = (0, 3, 4)
    subsets = [
        tuple(s for s, held in zip(offsets, bits, strict=True) if held) for bits in product((0, 1), repeat=3)
    ]
    for given, first, following, end in product(subsets, offsets, range(1, 6), ENDS):
        if first < following:
            yield Claims((True, False, True, True), ((*given, (first, following, *end)),))


def larger_claims(rng: Random) -> Claims:
    """Up to ten inputs and three workers. Each worker continues, and claims from time to time."""
    inputs = tuple(rng.random() < 0.7 for _ in range(rng.randint(2, 10)))
    return Claims(inputs, tuple(_claiming(rng, inputs) for _ in range(rng.randint(1, 3))))


def _claiming(rng: Random, inputs: tuple[bool, ...]) -> tuple[Step, ...]:
    visible, end = offsets_of(inputs)
    steps: list[Step] = []
    first, at = 0, 0
    for _ in range(rng.randint(1, 5)):
        given = [offset for offset in visible if offset >= at][: rng.randint(0, 3)]
        steps += given
        at = given[-1] + 1 if given else at
        following = at if rng.random() < 0.6 else rng.randint(0, end)
        if first < following:
            outcome = rng.choice(ENDS)
            steps.append((first, following, *outcome))
            first = following if rng.random() < 0.8 else rng.randint(0, end - 1)
    return tuple(steps)


def offsets_of(inputs: tuple[bool, ...]) -> tuple[list[int], int]:
    """The offsets of the committed inputs, and the end of the log. Each aborted input has a marker after it."""
    visible, at = [], 0
    for committed in inputs:
        visible += [at] if committed else []
        at += 1 if committed else 2
    return visible, at


def draw_claims(case: Claims) -> History:
    """The workers are given them, and commit offsets alone; nothing is due but of the first.

    Who goes on after an `info` had an answer.
    """
    h = History()
    for committed in case.inputs:
        if committed:
            h.feed(1)
        else:
            h.append("a", None, 9)
            h.append_marker("a", 9, "abort")
    due = min((row["offset"] for row in h.rows["expected"]), default=-1)
    h.alter_expected(lambda row: row if row["offset"] == due else None)
    for number, steps in enumerate(case.workers):
        for position, step in enumerate(steps, 1):
            if isinstance(step, int):
                h.poll(h.op(f"w{number}", "poll"), "a", step, h.entries["a"][step]["value"])
            else:
                first, following, outcome, fate = step
                h.transact(
                    outcome=outcome, fate=fate, to="", claim=(first, following),
                    worker=f"w{number}", pid=number + 1,
                )  # fmt: skip
                if position < len(steps):
                    h.rows["ops"][-1]["return_ns"] = h.tick()
    return h


def defined_claims(case: Claims) -> Counts:
    """A claimed input above all deliveries is premature. Without any delivery, the polls prove nothing."""
    if not any(isinstance(step, int) for steps in case.workers for step in steps):
        return {}
    visible, _ = offsets_of(case.inputs)
    beyond = 0
    for steps in case.workers:
        given = -1
        for step in steps:
            if isinstance(step, int):
                given = max(given, step)
                continue
            first, following, _, fate = step
            beyond += fate == "commit" and any(first <= at < following and at > given for at in visible)
    return {"premature-offset": beyond} if beyond else {}
