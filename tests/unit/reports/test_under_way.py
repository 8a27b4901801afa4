"""What a fault met: which operations were under way, and how they ended."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.under_way import told
from tests.support.synthetic_store import FAULTS, MS, operation, write_table

FAULT = replace(FAULTS[0], start_s=10.0, end_s=20.0)


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    whole = [
        operation(number, **row) | {"run": 0, "op": number, "group": "g", "f": row.get("f", "txn")}
        for number, row in enumerate(rows)
    ]
    write_table(folder, "ops", whole)
    return folder


def op(call_s: float, return_s: float | None, **more: Any) -> dict[str, Any]:
    """One operation, in seconds since the run began."""
    return {
        "call_ns": round(call_s * 1000 * MS),
        "commit_ns": None,
        "return_ns": None if return_s is None else round(return_s * 1000 * MS),
        "fenced": False,
        **more,
    }


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([op(1, 9.9)], "none when it struck, none until it was healed"),
        ([op(1, 10)], "1 when it struck; of 1 until it was healed, none failed; the longest took 9 s"),
        ([op(20, 21)], "none when it struck; of 1 until it was healed, none failed; the longest took 1 s"),
        ([op(20.1, 21)], "none when it struck, none until it was healed"),
        (
            [op(9, 12, outcome="fail")],
            "1 when it struck; of 1 until it was healed, 1 failed; the longest took 3 s",
        ),
        (
            [op(9, 12, outcome="fail", asked="abort")],
            "1 when it struck; of 1 until it was healed, none failed; the longest took 3 s",
        ),
        (
            [op(9, 12, outcome="fail", fenced=True), op(12, 14, outcome="info"), op(15, 16, outcome="fail")],
            "1 when it struck; of 3 until it was healed, 1 failed, 1 fenced, 1 left unknown; the longest took 3 s",
        ),
        (
            [op(9, 12, outcome="fail", asked=None, f="send")],
            "1 when it struck; of 1 until it was healed, 1 failed; the longest took 3 s",
        ),
        ([op(9, None, outcome="info")], "1 when it struck; of 1 until it was healed, 1 left unknown"),
        (
            [op(1, None, outcome="info"), op(5, 6, journal="shop-2.1")],  # its process was gone before
            "none when it struck, none until it was healed",
        ),
        (
            [op(1, None, outcome="info"), op(5, 6, journal="shop-3.1")],
            "1 when it struck; of 1 until it was healed, 1 left unknown",
        ),
    ],
)
def test_what_was_under_way_is_counted_by_how_it_ended(
    rows: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    assert told(written(tmp_path, *rows), [FAULT]) == [said]


def test_a_fault_that_was_never_healed_has_met_what_was_under_way_when_it_struck(tmp_path: Path) -> None:
    folder = written(tmp_path, op(9, 12), op(11, 12))
    assert told(folder, [replace(FAULT, end_s=None)]) == ["1 when it struck"]


def test_what_does_no_stages_work_is_not_counted(tmp_path: Path) -> None:
    folder = written(tmp_path, op(9, 12), op(9, 12, stage=None), op(9, 12, f="poll"))
    assert told(folder, [FAULT])[0].startswith("1 when it struck; of 1 until")


def test_nothing_is_told_where_no_stage_kept_a_journal(tmp_path: Path) -> None:
    assert told(tmp_path, [FAULT]) == []
    assert told(written(tmp_path, op(9, 12, stage=None)), [FAULT]) == []
