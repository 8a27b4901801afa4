"""For each anomaly of the reference checker: the smallest history that has it, and its nearest legal neighbour."""

from typing import Any

import pytest

from tests.reference.generate import PLANTABLE
from tests.reference.jepsen import NAMES, findings
from tests.reference.written import history

SENT = ("9 ok x1@0", "9 ok x2@1", "9 ok x3@2")
BOTH = ("8 ok x1@0", "8 ok y1@0")  # the first operations of the cycles of rw edges

Case = tuple[tuple[str, ...], tuple[str, ...], set[Any]]

CASES: dict[str, list[Case]] = {
    "lost-write": [
        (("0 ok x1@0", "1 ok x2@1", "2 ok ?x2@1"), ("0 ok x1@0", "1 ok x2@1", "2 ok ?x1@0"), {("x", 1)}),
        # an info transaction counts if one of its values was read
        (
            ("0 info y7@0 x1@0", "1 ok x2@1", "2 ok ?x2@1", "2 ok ?y7@0"),
            ("0 info y7@0 x1@0", "1 ok x2@1", "2 ok ?x2@1"),
            {("x", 1)},
        ),
        # a poll with outcome info shows the offset of a send, and proves nothing else
        (
            ("0 ok x1", "1 ok x2@1", "2 info ?x1@0", "3 ok ?x2@1"),
            ("0 ok x1", "1 ok x2@1", "2 info ?x2@1", "3 ok ?x2@1"),
            {("x", 1)},
        ),
        # an operation that never completed counts as info
        (
            ("0 ( x1 y1", "1 ok x2@1", "2 info ?x1@0", "3 ok ?x2@1 ?y1@0"),
            ("0 ( x1 y1", "1 ok x2@1", "2 info ?x1@0", "3 ok ?x2@1"),
            {("x", 1)},
        ),
        # a value with two offsets must be read if its last index is below the highest index that was read
        (
            ("0 ok x1@0", "1 ok x2@2", "2 info ?x1@1", "3 ok ?x2@2"),
            ("0 ok x1@0", "1 ok x2@2", "2 info ?x1@3", "3 ok ?x2@2"),
            {("x", 1)},
        ),
        # the highest index that was read counts the first index of a value with two offsets
        (
            ("0 ok x1@0", "1 ok x2@1", "2 ok ?x2@1", "3 ok ?x2@2"),
            ("0 ok x2@0", "1 ok x1@1", "2 ok ?x2@0", "3 ok ?x2@2"),
            {("x", 1)},
        ),
        # if an offset has two values, both must be read
        (("0 ok x1@0", "1 ok x2@0", "2 ok ?x2@0"), ("0 ok x1@0", "1 fail x2@0", "2 ok ?x1@0"), {("x", 1)}),
    ],
    "duplicate": [(("0 ok x1@0", "1 fail ?x1@1"), ("0 info x1@0", "1 fail ?x1@1"), {("x", 1)})],
    "inconsistent-offsets": [(("0 ok x1@0", "1 ok x2@0"), ("0 ok x1@0", "1 info x2@0"), {("x", 0)})],
    "aborted-read": [
        (("0 fail x1@0", "1 ok ?x1@0"), ("0 fail x1@0", "1 info ?x1@0"), {(3, "x", 1)}),
        (("0 fail x1@0", "1 ok ?x1@0"), ("0 info x1@0", "1 ok ?x1@0"), {(3, "x", 1)}),
    ],
    "precommitted-read": [
        (("0 fail ?x1@0 x1@0",), ("0 ok x1@0", "0 ok ?x1@0"), {(1, "x", 1)}),
        (("0 ok x1@0 ?x1@0",), ("0 ok x1@0 ?y1@0",), {(1, "x", 1)}),
    ],
    "unseen": [
        (("0 ok x1",), ("0 info x1",), {("x", 1)}),
        (("0 ok x1@0", "1 fail ?x1@0"), ("0 ok x1@0", "1 ok ?x1@0"), {("x", 1)}),
    ],
    "torn-transaction": [
        (
            ("0 ok x1@0 y1@0", "1 ok x2@1", "2 ok ?x2@1 ?y1@0"),
            ("0 ok x1@0 y1@0", "1 ok x2@1", "2 ok ?x2@1"),
            {(1,)},
        ),
        (
            ("0 info x1@0 y1@0", "1 ok x2@1", "2 ok ?x2@1 ?y1@0"),
            ("0 info x1 y1", "1 ok x2@1", "2 ok ?x2@1 ?y1@0"),
            {(1,)},
        ),
    ],
    "phantom": [
        (("0 ok ?x1@0",), ("0 fail x1", "1 ok ?x1@0"), {("x", 1)}),
        (("1 ok ?x1@0",), ("0 ( x1", "1 ok ?x1@0"), {("x", 1)}),
        # a record that an operation with outcome info or fail received proves nothing
        (("1 info ?x1@0", "2 ok ?x1@0"), ("1 info ?x1@0", "2 fail ?x1@0"), {("x", 1)}),
    ],
    "poll-skip": [
        (
            (*SENT, "0 ok ?x1@0", "0 fail ?x3@2"),
            (*SENT, "0 ok ?x1@0", "0 ok assign", "0 ok ?x3@2"),
            {(9, "x", 7)},
        ),
        # offsets without a record are no gap
        (
            ("9 ok x1@0", "9 ok x2@7", "9 ok x3@9", "0 ok ?x1@0", "0 ok ?x3@9"),
            ("9 ok x1@0", "9 info x2@7", "9 ok x3@9", "0 ok ?x1@0", "0 ok ?x3@9"),
            {(9, "x", 7)},
        ),
        # nothing is derived from two values at one offset
        (
            (*SENT, "0 ok ?x1@0", "0 ok ?x3@2"),
            (*SENT, "9 ok x4@2", "0 ok ?x1@0", "0 ok ?x3@2"),
            {(9, "x", 7)},
        ),
    ],
    "nonmonotonic-poll": [
        ((*SENT, "0 ok ?x1@0", "0 ok ?x1@0"), (*SENT, "0 info ?x1@0", "0 ok ?x1@0"), {(9, "x", 7)}),
        (
            (*SENT, "0 ok ?x2@1", "0 ok assign x", "0 ok ?x1@0"),
            (*SENT, "0 ok ?x2@1", "0 ok assign y", "0 ok ?x1@0"),
            {(11, "x", 7)},
        ),
        (
            (*SENT, "0 ok ?x2@1", "0 fail assign", "0 ok ?x1@0"),
            (*SENT, "0 ok ?x2@1", "0 info assign", "0 ok ?x1@0"),
            {(11, "x", 7)},
        ),
    ],
    "int-poll-skip": [((*SENT, "0 fail ?x1@0 ?x3@2"), (*SENT, "0 fail ?x1@0,2@1 ?x3@2"), {(7, "x", 1)})],
    "int-nonmonotonic-poll": [
        ((*SENT, "0 ok ?x1@0,2@1,1@0"), (*SENT, "0 ok ?x1@0,2@1,3@2"), {(7, "x", 2)}),
        ((*SENT, "0 ok ?x1@0 ?x1@0"), (*SENT, "0 ok ?x1@0 ?y1@0"), {(7, "x", 1)}),
    ],
    "nonmonotonic-send": [
        (("0 ok x2@1", "0 ok x1@0"), ("0 ok x2@1", "1 ok x1@0"), {(3, "x", 1)}),
        (("0 ok x2@1", "0 ok x1@0"), ("0 fail x2@1", "0 ok x1@0", "1 ok ?x2@1"), {(3, "x", 1)}),
        (("0 info x2@1", "0 ok x1@0", "1 ok ?x2@1"), ("0 info x2@1", "0 ok x1@0"), {(3, "x", 1)}),
        (("0 ok x2@1", "0 ok x1@0"), ("0 ok x2@1", "0 ok subscribe y", "0 ok x1@0"), {(3, "x", 1)}),
    ],
    "int-nonmonotonic-send": [
        (("0 ok x2@1 x1@0",), ("0 ok x1@0 x2@1",), {(1, "x", 1)}),
        (("0 fail x2@1 x1@0", "1 info ?x1@0,2@1"), ("0 fail x2@1 x1@0",), {(1, "x", 1)}),
    ],
    "int-send-skip": [
        (("0 ok x1@0 x3@2", "1 ok x2@1"), ("0 ok x1@0 x3@2", "1 ok x2"), {(1, "x", 1)}),
    ],
    "G0": [
        (
            ("0 ( x1 y1", "1 ok x2@1 y2@0", "0 ok) x1@0 y1@1"),
            ("0 ( x1 y1", "1 ok x2@1 y2@1", "0 ok) x1@0 y1@0"),
            {frozenset({2, 3})},
        ),
    ],
    "G0-process": [(("0 ok x2@1", "0 ok x1@0"), ("0 info x2@1", "0 ok x1@0"), {frozenset({1, 3})})],
    "G0-realtime": [
        (("0 ok x2@1", "1 ok x1@0"), ("0 ( x2", "1 ok x1@0", "0 ok) x2@1"), {frozenset({1, 3})}),
        # no ww edge from two values at one offset
        (("0 ok x2@1", "1 ok x1@0"), ("0 ok x2@1", "1 ok x1@0", "1 ok x3@1"), {frozenset({1, 3})}),
    ],
    "G1c": [
        (
            ("0 ( x1 ?", "1 ok y1 ?x1@0", "0 ok) x1 ?y1@0"),
            ("0 ( x1 ?", "1 ok y1 ?x1@0", "0 ok) x1 ?z1@0"),
            {frozenset({2, 3})},
        ),
        (
            ("0 ( x1 ?", "1 fail y1 ?x1@0", "0 info) x1 ?y1@0"),
            ("0 ( x1 ?", "1 fail y1 ?", "0 info) x1 ?y1@0"),
            {frozenset({2, 3})},
        ),
    ],
    "G1c-process": [(("0 ok ?x1@0", "0 ok x1@0"), ("0 ok ?x1@0", "1 ok x1@0"), {frozenset({1, 3})})],
    "G1c-realtime": [
        (("0 ok ?x1@0", "1 ok x1@0"), ("0 info ?x1@0", "1 ok x1@0"), {frozenset({1, 3})}),
        (("0 ok ?x1@0", "1 ok x1@0"), ("0 ( ?", "1 ok x1@0", "0 ok) ?x1@0"), {frozenset({1, 3})}),
    ],
    "G1c-ww": [
        (
            ("0 ( x1 ?", "1 ok x2@1 y1", "0 ok) x1@0 ?y1@0"),
            ("0 ( x1 ?", "1 ok x2@0 y1", "0 ok) x1@1 ?y1@0"),
            {frozenset({2, 3})},
        ),
    ],
    "G1c-ww-process": [
        (
            ("1 ( x2 y1", "0 ok ?y1@0", "0 ok x1@0", "1 ok) x2@1 y1"),
            ("1 ( x2 y1", "0 ok ?y1@0", "2 ok x1@0", "1 ok) x2@1 y1"),
            {frozenset({2, 4, 5})},
        ),
    ],
    "G1c-ww-realtime": [
        (
            ("1 ( x2 y1", "0 ok ?y1@0", "2 ok x1@0", "1 ok) x2@1 y1"),
            ("1 ( x2 y1", "2 ( x1", "0 ok ?y1@0", "2 ok) x1@0", "1 ok) x2@1 y1"),
            {frozenset({2, 4, 5})},
        ),
    ],
    "G-single": [
        (
            ("8 ok x1@0", "0 ( ? y3", "1 ok x2@1 y2@1", "0 ok) ?x1@0 y3@2"),
            ("8 ok x1@0", "0 ( ? y3", "1 ok x2@1 y2@1", "0 ok) ?x1@0 y3@0"),
            {frozenset({4, 5})},
        ),
        # the last read of the key counts
        (
            ("8 ok x1@0", "0 ( ? ?", "1 ok x2@1 y2@1", "0 ok) ?x1@0 ?y2@1"),
            ("8 ok x1@0", "0 ( ? ? ?", "1 ok x2@1 y2@1", "0 ok) ?x1@0 ?y2@1 ?x2@1"),
            {frozenset({4, 5})},
        ),
    ],
    "G-single-process": [
        (
            ("8 ok x1@0", "0 ok x2@1", "0 ok ?x1@0"),
            ("8 ok x1@0", "0 ok x2@1", "1 ok ?x1@0"),
            {frozenset({3, 5})},
        ),
    ],
    "G-single-realtime": [
        (
            ("8 ok x1@0", "0 ok x2@1", "1 ok ?x1@0"),
            ("8 ok x1@0", "0 info x2@1", "1 ok ?x1@0", "2 ok ?x2@1"),
            {frozenset({3, 5})},
        ),
    ],
    "G2": [
        (
            (*BOTH, "0 ( ? y2", "1 ok ?y1@0 x2@1", "0 ok) ?x1@0 y2@1"),
            (*BOTH, "0 ( ? y2", "1 ok ?y1@0 x2@1", "0 ok) ?x2@1 y2@1"),
            {frozenset({6, 7})},
        ),
    ],
    "G2-process": [
        (
            (*BOTH, "1 ( ? y2", "0 ok x2@1", "0 ok ?y1@0", "1 ok) ?x1@0 y2@1"),
            (*BOTH, "1 ( ? y2", "0 ok x2@1", "2 ok ?y1@0", "1 ok) ?x1@0 y2@1"),
            {frozenset({6, 8, 9})},
        ),
    ],
    "G2-realtime": [
        (
            (*BOTH, "1 ( ? y2", "0 ok x2@1", "2 ok ?y1@0", "1 ok) ?x1@0 y2@1"),
            (*BOTH, "1 ( ? y2", "2 ( ?", "0 ok x2@1", "2 ok) ?y1@0", "1 ok) ?x1@0 y2@1"),
            {frozenset({6, 8, 9})},
        ),
    ],
}
PAIRS = [(name, *case) for name, cases in CASES.items() for case in cases]


def test_every_anomaly_has_a_case_and_can_be_planted() -> None:
    assert set(NAMES) == set(CASES) == set(PLANTABLE)


@pytest.mark.parametrize(("name", "bad", "good", "expected"), PAIRS)
def test_the_smallest_case_is_found_and_its_neighbour_is_not(
    name: str, bad: tuple[str, ...], good: tuple[str, ...], expected: set[Any]
) -> None:
    assert findings(history(*bad)).get(name) == expected
    assert name not in findings(history(*good))
