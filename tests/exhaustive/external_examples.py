"""Histories of a few lines, and what the example of an anomaly must hold.

An operation is named by the line of its completion, from 1.
"""

from typing import Any

from tests.reference.history import Event
from tests.support.external_histories import to_number


def e(process: int, type_: str, *steps: list[Any]) -> Event:
    """An event of a transaction."""
    return {"process": process, "type": type_, "f": "txn", "value": list(steps)}


def done(process: int, *steps: list[Any]) -> list[Event]:
    """An operation that was ok, alone at its time."""
    return [e(process, "invoke"), e(process, "ok", *steps)]


EXAMPLES: list[tuple[str, dict[str, Any], list[Event]]] = [
    (
        "phantom",  # names the first that was given it, and where
        {"reader": {"op": 4}, "record": {"value": 7, "offset": 1}},
        [
            *done(0, ["send", "x", [0, 1]]),
            *done(1, ["poll", {"x": [[1, 7]]}]),
            *done(2, ["poll", {"x": [[2, 7]]}]),
        ],
    ),
    (
        "phantom",  # names an ok operation that was given it, though others came before
        {"reader": {"op": 8}, "record": {"value": 7, "offset": 5}},
        [
            *done(0, ["send", "x", [0, 1]]),
            e(1, "invoke"),
            e(1, "info", ["poll", {"x": [[5, 7]]}]),
            e(2, "invoke"),
            e(2, "fail", ["poll", {"x": [[5, 7]]}]),
            *done(3, ["poll", {"x": [[5, 7]]}]),
        ],
    ),
    (
        "duplicate",  # names all operations with the value: the sender too, although its send has no offset
        {"offsets": [0, 2], "operations": [{"op": 2}, {"op": 4}, {"op": 6}]},
        [
            *done(0, ["send", "x", 1]),
            *done(1, ["poll", {"x": [[0, 1]]}]),
            *done(2, ["poll", {"x": [[2, 1]]}]),
        ],
    ),
    (
        "lost-write",  # says where it stands, and who read on beyond it
        {
            "record": {"value": 1, "offset": 3},
            "operation": {"op": 2},
            "read_beyond": {"op": 8, "value": 3, "offset": 7},
        },
        [
            *done(0, ["send", "x", [3, 1]]),
            *done(0, ["send", "x", [5, 2]], ["send", "x", [7, 3]]),
            *done(1, ["poll", {"x": [[5, 2]]}]),
            *done(1, ["poll", {"x": [[7, 3]]}]),
        ],
    ),
    (
        "lost-write",  # of a completion, though another that never completed sent it later
        {"record": {"value": 1, "offset": 3}, "operation": {"op": 2}},
        [
            *done(0, ["send", "x", [3, 1]], ["send", "x", [5, 2]]),
            e(2, "invoke", ["send", "x", 1]),
            *done(1, ["poll", {"x": [[5, 2]]}]),
        ],
    ),
    (
        "unseen",
        {"record": {"value": 2, "offset": 5}, "operation": {"op": 2}},
        [*done(0, ["send", "x", [3, 1]], ["send", "x", [5, 2]]), *done(1, ["poll", {"x": [[3, 1]]}])],
    ),
    (
        "poll-skip",  # from where to where, and over how many
        {
            "records": [{"value": 1, "offset": 3}, {"value": 4, "offset": 9}],
            "skipped": 2,
            "operations": [{"op": 4}, {"op": 8}],
        },
        [
            *done(0, *(["send", "x", [2 * value + 1, value]] for value in (1, 2, 3, 4))),
            *done(1, ["poll", {"x": [[3, 1]]}]),
            *done(2, ["poll", {"x": [[5, 2], [7, 3]]}]),
            *done(1, ["poll", {"x": [[9, 4]]}]),
        ],
    ),
    (
        "int-poll-skip",  # within one operation, which is named once
        {
            "records": [{"value": 1, "offset": 3}, {"value": 3, "offset": 7}],
            "skipped": 1,
            "operations": [{"op": 4}],
        },
        [
            *done(0, *(["send", "x", [2 * value + 1, value]] for value in (1, 2, 3))),
            *done(1, ["poll", {"x": [[3, 1], [7, 3]]}]),
            *done(2, ["poll", {"x": [[5, 2]]}]),
        ],
    ),
    (
        "nonmonotonic-poll",
        {"records": [{"value": 2, "offset": 5}, {"value": 1, "offset": 3}], "skipped": None},
        [
            *done(0, ["send", "x", [3, 1]], ["send", "x", [5, 2]]),
            *done(1, ["poll", {"x": [[3, 1], [5, 2]]}]),
            *done(1, ["poll", {"x": [[3, 1]]}]),
        ],
    ),
    (
        "nonmonotonic-poll",  # the same record again
        {"records": [{"value": 1, "offset": 3}, {"value": 1, "offset": 3}], "skipped": None},
        [
            *done(0, ["send", "x", [3, 1]], ["send", "x", [5, 2]]),
            *done(1, ["poll", {"x": [[3, 1]]}]),
            *done(1, ["poll", {"x": [[3, 1]]}]),
        ],
    ),
    (
        "G1c",  # each step in words
        {
            "steps": [
                f"T4 read 1 from {to_number('x')}, which T3 wrote",
                f"T3 read 2 from {to_number('y')}, which T4 wrote",
            ],
            "cycle": [
                {"record": {"key": to_number("x"), "value": 1, "offset": 0}},
                {"record": {"key": to_number("y"), "value": 2, "offset": 5}},
            ],
        },
        [
            *(e(process, "invoke") for process in (0, 1)),
            e(0, "ok", ["send", "x", [0, 1]], ["poll", {"y": [[5, 2]]}]),
            e(1, "ok", ["send", "y", [5, 2]], ["poll", {"x": [[0, 1]]}]),
        ],
    ),
    (
        "G1c",  # of each history the first
        {
            "steps": [
                f"T4 read 8 from {to_number('x')}, which T3 wrote",
                f"T3 read 9 from {to_number('y')}, which T4 wrote",
            ]
        },
        [
            *(e(process, "invoke") for process in (0, 1)),
            e(0, "ok", ["send", "x", [0, 8]], ["poll", {"y": [[0, 9]]}]),
            e(1, "ok", ["send", "y", [0, 9]], ["poll", {"x": [[0, 8]]}]),
        ],
    ),
    (
        "G1c-realtime",  # of one that never completed, and was read before it was invoked
        {
            "steps": [
                "T3 was invoked after T2 had completed",
                f"T2 read 1 from {to_number('x')}, which T3 wrote",
            ],
        },
        [*done(0, ["poll", {"x": [[0, 1]]}]), e(1, "invoke", ["send", "x", 1])],
    ),
    (
        "G0",
        {
            "steps": [
                f"T4 wrote 4 to {to_number('x')}, next after 1, which T3 wrote",
                f"T3 wrote 3 to {to_number('y')}, next after 2, which T4 wrote",
            ],
            "cycle": [
                {
                    "record": {"value": 1, "offset": 0},
                    "following": {"key": to_number("x"), "value": 4, "offset": 1},
                },
                {
                    "record": {"value": 2, "offset": 0},
                    "following": {"key": to_number("y"), "value": 3, "offset": 1},
                },
            ],
        },
        [
            *(e(process, "invoke") for process in (0, 1)),
            e(0, "ok", ["send", "x", [0, 1]], ["send", "y", [1, 3]]),
            e(1, "ok", ["send", "y", [0, 2]], ["send", "x", [1, 4]]),
        ],
    ),
    (
        "G-single",
        {
            "steps": [
                f"T6 read 1 from {to_number('x')} and not 2, next after it, which T5 wrote",
                f"T6 read 7 from {to_number('y')}, which T5 wrote",
            ]
        },
        [
            *done(0, ["send", "x", [0, 1]]),
            *(e(process, "invoke") for process in (1, 2)),
            e(1, "ok", ["send", "x", [1, 2]], ["send", "y", [0, 7]]),
            e(2, "ok", ["poll", {"x": [[0, 1]], "y": [[0, 7]]}]),
        ],
    ),
    (
        "torn-transaction",  # what was read of it, and what is lost; y's 3 has no place, and is unseen
        {"operation": {"op": 2}, "read": [{"value": 1, "offset": 3}], "unread": [{"value": 2, "offset": 0}]},
        [
            *done(0, ["send", "x", [3, 1]], ["send", "y", [0, 2]], ["send", "y", 3]),
            *done(1, ["send", "y", [1, 4]]),
            *done(2, ["poll", {"x": [[3, 1]], "y": [[1, 4]]}]),
        ],
    ),
]
"""The anomaly, what its first example must hold, and the history."""
UNPROMISED: list[list[Event]] = [
    done(0, ["send", "x", [0, 1]], ["poll", {"x": [[0, 1]]}]),
    [
        *(e(process, "invoke") for process in (0, 1)),
        e(0, "ok", ["send", "x", [0, 1]], ["poll", {"y": [[0, 2]]}]),
        e(1, "ok", ["send", "y", [0, 2]], ["poll", {"x": [[0, 1]]}]),
    ],
    [
        e(0, "invoke"),
        *done(1, ["poll", {"x": [[0, 1]]}]),
        e(0, "info", ["send", "x", [0, 1]], ["send", "y", [0, 2]]),
        *done(2, ["send", "y", [2, 3]]),
        *done(3, ["poll", {"y": [[2, 3]]}]),
    ],
]
"""Wrong if they were promised committed records, right if they had not asked for that."""
