"""The operations that were under way during a fault, and how they ended."""

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from harness.common.errors import UnreadableInput
from harness.record.table_reader import RunTables
from reports.under_way import describe_met
from tests.support.synthetic_store import FAULTS, MS, operation, write_table

FAULT = structs.replace(FAULTS[0], start_s=10.0, end_s=20.0)


def write_ops(folder: Path, *rows: dict[str, Any]) -> Path:
    complete = [
        operation(number, **row) | {"run": 0, "op": number, "group": "g", "f": row.get("f", "txn")}
        for number, row in enumerate(rows)
    ]
    write_table(folder, "ops", complete)
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


NONE = "none when it was injected, none until it was healed"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([op(1, 9.9)], NONE),
        ([op(20.1, 21)], NONE),
        (
            [op(1, 10)],
            (
                "1 when it was injected, none when it was healed; of 1 that ended meanwhile, none failed; "
                "the longest took 0 ms of that time"
            ),
        ),
        (
            [op(1, 20)],
            (
                "1 when it was injected, none when it was healed; of 1 that ended meanwhile, none failed; "
                "the longest took 10 s of that time"
            ),
        ),
        (
            [op(20, 21)],
            "none when it was injected, 1 when it was healed; none ended meanwhile; the longest took 0 ms of that time",
        ),
        (
            [op(18, 29, outcome="fail", fenced=True)],  # by a later fault
            "none when it was injected, 1 when it was healed; none ended meanwhile; the longest took 2 s of that time",
        ),
        (
            [op(9, 12, outcome="fail")],
            (
                "1 when it was injected, none when it was healed; of 1 that ended meanwhile, 1 failed; "
                "the longest took 2 s of that time"
            ),
        ),
        (
            [op(9, 12, outcome="fail", asked=None, f="send"), op(9, 12, f="commit-offsets")],
            (
                "2 when it was injected, none when it was healed; of 2 that ended meanwhile, 1 failed; "
                "the longest took 2 s of that time"
            ),
        ),
        (
            [op(9, 12, outcome="fail", asked="abort")],
            (
                "1 when it was injected, none when it was healed; of 1 that ended meanwhile, none failed; "
                "the longest took 2 s of that time"
            ),
        ),
        (
            [
                op(9, 12, outcome="fail", fenced=True),
                op(12, 14, outcome="info", fenced=True),
                op(14, 14.5, outcome="info"),
                op(15, 16, outcome="fail", fenced=None),
                op(19, 22, outcome="fail"),
            ],
            (
                "1 when it was injected, 1 when it was healed; of 4 that ended meanwhile, 1 failed, 2 fenced, "
                "1 left unknown; the longest took 2 s of that time"
            ),
        ),
        (
            [op(9, None, outcome="info")],  # the last operation of its worker
            "1 when it was injected, 1 when it was healed; none ended meanwhile; the longest took 10 s of that time",
        ),
        ([op(5, 6, journal="shop-2.1"), op(1, None, outcome="info")], NONE),  # its process was gone before
        ([op(1, None, outcome="info", journal="shop-2.9"), op(5, 6, journal="shop-2.10", f="init")], NONE),
        (
            [op(1, None, outcome="info"), op(12, 13, journal="shop-2.1", f="init")],
            (
                "1 when it was injected, none when it was healed; of 1 that ended meanwhile, 1 left unknown; "
                "the longest took 2 s of that time"
            ),
        ),
        (
            [op(1, None, outcome="info"), op(5, 6, journal="shop-3.1")],  # of another worker
            "1 when it was injected, 1 when it was healed; none ended meanwhile; the longest took 10 s of that time",
        ),
        (
            [op(1, None, outcome="info", journal="shop-2"), op(5, 6, journal="shop-3")],
            "1 when it was injected, 1 when it was healed; none ended meanwhile; the longest took 10 s of that time",
        ),
    ],
)
def test_operations_under_way_are_counted_by_how_they_ended(
    rows: list[dict[str, Any]], expected: str, tmp_path: Path
) -> None:
    assert describe_met(RunTables(write_ops(tmp_path, *rows)), [FAULT]) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"end_s": None}, "1 when it was injected"),
        ({"end_s": 3.0}, "1 when it was injected"),
        ({"end_s": math.inf}, "1 when it was injected"),
        ({"acted": False}, ""),
        ({"start_s": math.nan}, ""),
        ({"start_s": -1e300}, ""),
        ({"start_s": 10**30}, ""),
    ],
)
def test_a_fault_without_an_end_or_a_start_is_described_without_them(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    assert describe_met(
        RunTables(write_ops(tmp_path, op(9, 12), op(11, 12))), [structs.replace(FAULT, **changes)]
    ) == [expected]


def test_a_table_without_a_column_is_refused_with_the_column(tmp_path: Path) -> None:
    path = write_ops(tmp_path, op(9, 12)) / "history" / "ops.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["fenced"]), path)
    with pytest.raises(UnreadableInput, match=r"^history/ops.parquet has no column fenced$"):
        describe_met(RunTables(tmp_path), [FAULT])


def test_operations_that_do_no_work_of_a_stage_are_not_counted(tmp_path: Path) -> None:
    folder = write_ops(tmp_path, op(9, 12), op(9, 12, stage=None), op(9, 12, f="poll"))
    assert describe_met(RunTables(folder), [FAULT])[0].startswith(
        "1 when it was injected, none when it was healed; of 1 that"
    )


def test_without_journals_of_stages_nothing_is_described(tmp_path: Path) -> None:
    assert describe_met(RunTables(tmp_path), [FAULT]) == []
    assert describe_met(RunTables(write_ops(tmp_path, op(9, 12, stage=None))), [FAULT]) == []
