"""Lanes of bars, and how their number is bounded.

A bar is something that lasted (a transaction, a fault) or happened at one moment (a log line). Bars that are too dense
to be told apart are merged into one, which keeps their count.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from harness.common.wording import redact_text

MOST_LANES = 50
MOST_BARS = 400
"""A lane has at most this many bars."""


class LaneGroup(StrEnum):
    """The groups of lanes, in the order of display."""

    PHASES = "Phases of the run"
    FAULTS = "Faults"
    FINDINGS = "Findings"
    PROCESSES = "Processes"
    REQUESTS = "Requests changed by a rule"
    TRANSACTIONS = "Transactions by transactional id"
    MEMBERS = "Partitions that group members own"
    LEADERS = "Leaders and coordinators"
    LOGS = "Warnings and errors in logs"


@dataclass(frozen=True)
class AxisBar:
    """A bar. Times are milliseconds since the start of the run."""

    from_ms: int
    to_ms: int | None  # None: it has no end, or it is not known
    kind: str  # what it is, in a word: how a transaction ended, the level of a log line
    count: int = 1  # how many bars are merged into it
    text: str = ""
    anchor: str = ""  # the part of the report that describes it

    def as_json(self) -> list[object]:
        """Return the bar as a list without secrets, and without the empty values at its end."""
        text = redact_text(self.text)
        row: list[object] = [self.from_ms, self.to_ms, self.kind, self.count, text, self.anchor]
        while row[-1] in ("", 1) and len(row) > 3:
            row.pop()
        return row


@dataclass(frozen=True)
class Lane:
    """A row of bars, in the order of their start."""

    group: LaneGroup
    name: str
    bars: Sequence[AxisBar]
    of_finding: bool = False  # a finding names it

    def as_json(self) -> dict[str, object]:
        """Return the lane as JSON."""
        body: dict[str, object] = {"group": self.group, "name": self.name}
        return (
            body | ({"finding": True} if self.of_finding else {}) | {"bars": [b.as_json() for b in self.bars]}
        )


def choose(lanes: Iterable[Lane], most: int = MOST_LANES) -> tuple[list[Lane], Counter[str]]:
    """Return at most `most` lanes in the order of display, and by group how many are left out.

    Lanes of findings come first. The others share what is left: each group gets one lane in turn, in its own order.
    """
    ordered = sorted(lanes, key=lambda lane: list(LaneGroup).index(lane.group))
    turn: Counter[str] = Counter()
    ranks = []
    for index, lane in enumerate(ordered):
        if not lane.of_finding:
            turn[lane.group] += 1
        ranks.append((not lane.of_finding, turn[lane.group], index))
    chosen = {index for _, _, index in sorted(ranks)[:most]}
    left_out = Counter(str(lane.group) for index, lane in enumerate(ordered) if index not in chosen)
    return [lane for index, lane in enumerate(ordered) if index in chosen], left_out


def bars(
    begin_ns: np.ndarray,
    end_ns: np.ndarray,
    kinds: Sequence[str],
    codes: np.ndarray,
    texts: Sequence[str | None] = (),
    most: int = MOST_BARS,
) -> list[AxisBar]:
    """Return at most `most` bars, in the order of their start. If there are more, short neighbours of one kind are
    merged.

    Args:
        begin_ns: the start of each bar, in nanoseconds since the start of the run
        end_ns: its end; negative: it has none
        kinds: the names of the kinds
        codes: for each bar, the index of its kind
        texts: for each bar, its text; empty: no bar has a text. A merged bar has none
        most: the largest number of bars
    """
    order = np.argsort(begin_ns, kind="stable")
    begin, end, code = (values[order] for values in (begin_ns, end_ns, codes))
    texts = [texts[index] for index in order] if texts else []
    if len(begin) <= most:
        single = np.arange(len(begin))
        merged: list[AxisBar] = []
    else:
        single, merged = _merge(begin, end, kinds, code, most)
    alone = [
        _bar(int(begin[n]), int(end[n]), kinds[code[n]], text=(texts[n] if texts else None) or "")
        for n in single
    ]
    return sorted([*alone, *merged], key=lambda bar: bar.from_ms)


def _merge(
    begin: np.ndarray, end: np.ndarray, kinds: Sequence[str], code: np.ndarray, most: int
) -> tuple[np.ndarray, list[AxisBar]]:
    """Return the indices of the bars that stay alone, and the merged bars.

    Half of the bars are for those that are longer than an interval or have no end, the longest first. The others are
    merged by kind and interval.
    """
    used = len(np.unique(code))
    intervals = max(1, most // 2 // used)
    width = int(begin[-1] - begin[0]) // intervals + 1
    length = np.where(end < 0, np.iinfo(np.int64).max, end - begin)
    longest = np.argsort(-length, kind="stable")[: most // 2]
    single = np.sort(longest[length[longest] > width])
    rest = np.ones(len(begin), bool)
    rest[single] = False
    ends = np.where(end < 0, begin, end)
    key = (begin[rest] - begin[0]) // width * len(kinds) + code[rest]
    keys, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    first, last = np.full(len(keys), np.iinfo(np.int64).max), np.zeros(len(keys), np.int64)
    np.minimum.at(first, place, begin[rest])
    np.maximum.at(last, place, ends[rest])
    rows = zip(keys, counts, first, last, strict=True)
    return single, [
        _bar(int(lo), int(hi), kinds[int(key) % len(kinds)], int(count)) for key, count, lo, hi in rows
    ]


def _bar(begin_ns: int, end_ns: int, kind: str, count: int = 1, text: str = "") -> AxisBar:
    return AxisBar(milliseconds(begin_ns), None if end_ns < 0 else milliseconds(end_ns), kind, count, text)


def milliseconds(time_ns: float) -> int:
    """Convert nanoseconds to the unit of a bar."""
    return round(time_ns / 1e6)
