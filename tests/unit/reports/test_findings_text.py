"""The sentence about an example of an external history."""

import pytest

from checkers.checking.stored_runs import with_wording
from checkers.findings import example_line
from harness.results.verdict import Validity, Verdict
from reports.console import examples_of_history
from tests.support.findings import findings_of

T6 = {"op": 6, "process": 0, "f": "txn", "outcome": "ok", "invoked": 5, "invoke_ns": 2, "complete_ns": 3}
T12 = T6 | {"op": 12, "process": 3}


def example_text(name: str, example: dict[str, object], **more: bool) -> list[str]:
    findings = with_wording(name, findings_of(3, [example], **more), example_line)
    return list(examples_of_history(Verdict("h", "h", None, Validity.INVALID.json, "", {name: findings})))


def test_records_and_operations_are_named() -> None:
    example = {
        "record": {"key": "x", "value": 3, "offset": 1012},
        "operation": T6,
        "read_beyond": T12 | {"key": "x", "value": 4, "offset": 2014},
    }
    (line,) = example_text("lost-write", example)
    assert line.split("; ") == [
        'lost-write (3): record "x" 3 @ 1012',
        "operation T6 (process 0, ok)",
        'read beyond T12 (process 3, ok) "x" 4 @ 2014',
    ]


NONE_OF = "passed over: f is none of txn, send, poll, assign, subscribe, crash, debug-topic-partitions"


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [f"1 operation {NONE_OF}"]), (3000, [f"3,000 operations {NONE_OF}"])]
)
def test_operations_of_unknown_kinds_are_counted(count: int, expected: list[str]) -> None:
    verdict = Verdict("h", "h", None, Validity.VALID.json, "", {}, stats={"passed_over": count})
    assert list(examples_of_history(verdict)) == expected


def test_a_cycle_is_described_by_its_steps() -> None:
    example = {"cycle": [], "steps": ["T4 read 1 from x, which T3 wrote", "T3 read 2 from y, which T4 wrote"]}
    assert example_text("G1c", example) == [
        "G1c (3): T4 read 1 from x, which T3 wrote; T3 read 2 from y, which T4 wrote"
    ]


def test_lists_numbers_and_unknown_outcomes_are_described() -> None:
    example = {"records": [{"key": 1, "value": [2]}, {"op": 9, "of": {"a": None}}], "skipped": 2}
    assert example_text("poll-skip", example) == [
        "poll-skip (3): records 1 [2], T9 (unknown) of a null; skipped 2"
    ]


def test_values_of_a_history_are_escaped_and_shortened() -> None:
    (line,) = example_text("phantom", {"record": {"key": "\x1b[2J\n", "value": "v" * 10_000}})
    assert "\x1b" not in line
    assert "\n" not in line
    assert len(line) < 700


def test_an_allowed_anomaly_is_not_described() -> None:
    assert example_text("poll-skip", {"skipped": 2}, allowed=True) == []
