"""Every small history: up to two transactions of two micro-operations, three of one, a consumer's moves.

A transaction is written as its micro-operations in letters: `x` and `y` send to that key, `p` polls. Values
are numbered in the order of the letters. The histories differ in these choices: how and when each transaction
ends, the order of the records of a key, whether a send has its offset, and the records that each poll returns,
possible or not. Two transactions of two micro-operations each have fewer choices: their sends have offsets, and
each poll returns existing records of one key, in order or in reverse, or all records. Equal histories are drawn
once: the first key is `x`, and two concurrent transactions are drawn in only one order.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

from tests.reference.forms import Mop, f_of, mops_as_invoked, numbered, to_jsonl
from tests.reference.history import Event

Record = list[Any]
Truth = dict[str, list[Record]]
Given = dict[str, list[Record]]

OUTCOMES = ("ok", "info", "fail")
ONE = ("x", "y", "p")
TWO = tuple("".join(pair) for pair in product("xyp", repeat=2))
UNSENT = 9
"""A value that no operation sends."""


def small() -> Iterator[list[Event]]:
    """All of them, smallest first, each once."""
    drawn = set[str]()
    for events in _all():
        text = to_jsonl(events)
        if text not in drawn:
            drawn.add(text)
            yield events


def _all() -> Iterator[list[Event]]:
    for first in (*ONE, *TWO):
        yield from _of((first,), ("after",), richness=3)
    for pair in product(ONE, repeat=2):
        yield from _of(pair, ("same", "after", "over"), richness=3)
    for pair in [*product(ONE, TWO), *product(TWO, ONE)]:
        yield from _of(pair, ("same", "over"), richness=1)
    for triple in product(ONE, repeat=3):
        yield from _of(triple, ("same", "over"), richness=1)
    for pair in product(TWO, repeat=2):
        yield from _of(pair, ("same", "over"), richness=0)
    yield from killed()
    yield from moves()


def _of(shapes: Sequence[str], timings: Sequence[str], richness: int) -> Iterator[list[Event]]:
    letters = "".join(shapes)
    if "y" in letters and "x" not in letters[: letters.index("y")]:
        return
    for truth in _truths(letters, richness):
        polls = [_given(truth, richness)] * letters.count("p")
        with_or_without_offsets = (True, False) if set(letters) != {"p"} and richness else (True,)
        for given, with_offsets in product(product(*polls), with_or_without_offsets):
            mops = _mops(shapes, truth, list(given), with_offsets)
            for outcomes, timing in product(product(OUTCOMES, repeat=len(shapes)), timings):
                if timing != "over" or (*shapes[:2],) == (*sorted(shapes[:2]),):
                    yield _drawn(mops, outcomes, timing)


def _truths(letters: str, richness: int) -> Iterator[Truth]:
    """The records of each key: in the order of the sends, the other way round, otherwise, or at one offset."""
    keys = [letter for letter in letters if letter != "p"]
    counts = {key: keys.count(key) for key in keys}
    orders: list[tuple[Sequence[int], ...]] = [tuple(range(count) for count in counts.values())]
    if len(keys) > len(counts):
        orders.append(tuple(range(count)[::-1] for count in counts.values()))
    if max(counts.values(), default=0) > 2:
        orders.append(tuple([0, *range(count)[:0:-1]] for count in counts.values()))
    if list(counts.values()) == [2, 2]:
        orders.append(([0, 1], [1, 0]))
    if len(keys) > len(counts) and richness:
        orders.append(tuple([0] * count for count in counts.values()))
    for order in orders:
        offsets = {key: iter(there) for key, there in zip(counts, order, strict=True)}
        truth: Truth = {key: [] for key in counts}
        for value, key in enumerate(keys, 1):
            truth[key].append([next(offsets[key]), value])
        yield truth


def _given(truth: Truth, richness: int) -> list[Given]:
    """The possible results of a poll: no record, one, several in and out of order; then impossible results."""
    found: list[Given] = [{}]
    for key, records in truth.items():
        found += [{key: [record]} for record in records]
        if len(records) > 1:
            inner = permutations(records, 2) if richness else ()
            found += [{key: list(records)}, {key: records[::-1]}, *({key: list(pair)} for pair in inner)]
        if richness > 1:
            offset, value = records[0]
            strange = ([offset + 1, value], [None, value], [offset, UNSENT])
            found += [{key: [record]} for record in strange]
            found += [{key: [records[0], record]} for record in (records[0], *strange)]
    if len(truth) > 1:
        found += [dict(truth), {key: records[:1] for key, records in truth.items()}]
    if richness or not truth:
        found.append({"x": [[5, UNSENT]]})
    if richness > 2 and truth:
        found.append({"x": [[5, UNSENT], *truth["x"]]})
    return [given for at, given in enumerate(found) if given not in found[:at]]


def _mops(shapes: Sequence[str], truth: Truth, given: list[Given], with_offsets: bool) -> list[list[Mop]]:
    offsets = {record[1]: record[0] for records in truth.values() for record in records}
    values, polls = iter(sorted(offsets)), iter(given)
    made: list[list[Mop]] = []
    for shape in shapes:
        made.append([])
        for letter in shape:
            if letter == "p":
                made[-1].append(["poll", next(polls)])
            else:
                value = next(values)
                made[-1].append(["send", letter, [offsets[value], value] if with_offsets else value])
    return made


def _drawn(mops: list[list[Mop]], outcomes: Sequence[str], timing: str) -> list[Event]:
    """`same` process, one `after` the other by processes of their own, or the first two `over` each other."""
    events: list[list[Event]] = []
    for number, (some, outcome) in enumerate(zip(mops, outcomes, strict=True)):
        head = {"process": 0 if timing == "same" else number, "f": f_of(some)}
        invoked, ended = mops_as_invoked(some), list(some)
        events.append(
            [{**head, "type": "invoke", "value": invoked}, {**head, "type": outcome, "value": ended}]
        )
    if timing == "over" and len(events) > 1:
        one, two, *rest = events
        events = [[one[0], two[0]], [one[1], two[1]], *rest]
    return numbered(event for pair in events for event in pair)


def killed() -> Iterator[list[Event]]:
    """A sender whose invocation never completes, with later sends and polls of other processes."""
    for shape, last in (("x", 1), ("xx", 2), ("xy", 1)):
        truth: Truth = {key: [[0, 1]] for key in shape}
        if shape == "xx":
            truth["x"].append([1, 2])
        if shape == "xy":
            truth["y"] = [[0, 2]]
        truth["x"].append([last, 3])
        gives = _given(truth, 1)
        for (first, second), outcome in product(product(gives, repeat=2), OUTCOMES):
            asked: list[Mop] = [["send", key, value] for value, key in enumerate(shape, 1)]
            events = [{"process": 0, "type": "invoke", "f": "send", "value": asked}]
            other: list[Mop] = [["send", "x", [last, 3]]]
            for number, mops, how in (
                (1, other, "ok"),
                (2, [["poll", first]], outcome),
                (3, [["poll", second]], "ok"),
            ):
                head = {"process": number, "f": f_of(mops)}
                events.append({**head, "type": "invoke", "value": mops_as_invoked(mops)})
                events.append({**head, "type": how, "value": mops})
            yield numbered(events)


def moves() -> Iterator[list[Event]]:
    """A consumer of three known records polls twice, and something happens between, or within, or nothing."""
    runs = [list(run) for length in (1, 2) for run in permutations([[0, 1], [1, 2], [2, 3]], length)]
    between = [None, *product(("assign", "subscribe"), OUTCOMES, ([], ["x"], ["y"]))]
    for first, second, move in product(runs, runs, between):
        for outcome in OUTCOMES if move is None else ("ok",):
            yield _moved(first, second, move, outcome, None)
    for first, second, named in product(runs, runs, (["x"], ["y"])):
        yield _moved(first, second, None, "ok", named)


def _moved(
    first: list[Record], second: list[Record], move: Any, outcome: str, rebalanced: list[str] | None
) -> list[Event]:
    sends: list[Mop] = [["send", "x", [value - 1, value]] for value in (1, 2, 3)]
    polls: list[Mop] = [["poll", {"x": first}], ["poll", {"x": second}]]
    events: list[Event] = [
        {"process": 0, "type": "invoke", "f": "send", "value": mops_as_invoked(sends)},
        {"process": 0, "type": "ok", "f": "send", "value": sends},
    ]

    def act(kind: str, f: str, invoked: Any, completed: Any, **more: Any) -> None:
        events.append({"process": 1, "type": "invoke", "f": f, "value": invoked})
        events.append({"process": 1, "type": kind, "f": f, "value": completed, **more})

    if rebalanced is not None:
        act("ok", "poll", [["poll"], ["poll"]], polls, **{"rebalance-log": [{"keys": rebalanced}]})
        return numbered(events)
    act(outcome, "poll", [["poll"]], polls[:1])
    if move is not None:
        f, kind, keys = move
        act(kind, f, keys, keys)
    act("ok", "poll", [["poll"]], polls[1:])
    return numbered(events)
