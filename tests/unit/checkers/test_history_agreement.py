"""Tables that were written straight to Parquet, and contradict each other or themselves."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.scale import write
from checkers.histories.files import HistoryFile
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_folders import REQUIRED, find_contradictions, read_folders
from checkers.histories.table import FileTable
from fencepost.checks.histories import check_history_files
from harness.common.errors import UnreadableInput
from harness.record.history_form import FAIL, INFO, NAMES_FROM, OK, OPEN, TABLES
from harness.results.verdict import Validity, Verdict
from tests.reference.generate import random_history, to_jsonl

Row = dict[str, Any]
Tables = dict[str, list[Row]]
UNFIT = "txn and poll read, and an operation that never completed has read nothing"


def _op(op: int, process: int, f: str = "txn", outcome: int = OK, **more: Any) -> Row:
    return {"op": op, "process": process, "f": f, "outcome": outcome, "invoked": max(op - 1, 0)} | more


def _micro(op: int, value: int, process: int, polled: bool = False, outcome: int = OK, **more: Any) -> Row:
    named = {"op": op, "key": 5, "value": value, "offset": value, "n": 0, "process": process}
    return named | {"polled": polled, "outcome": outcome} | more


def _sound() -> Tables:
    """Two sends that are both read, and three operations without records: info, open and assign."""
    return {
        "ops": [
            _op(2, 0), _op(4, 1), _op(6, 2, isolation="read_committed"), _op(8, 3, outcome=INFO),
            _op(9, 4, outcome=OPEN, invoked=9), _op(11, 2, f="assign", keys=[5]), _op(13, 2, f="debug"),
        ],
        "micro": [_micro(2, 1, 0), _micro(4, 2, 1), _micro(6, 1, 2, True), _micro(6, 2, 2, True, n=1)],
        "names": [{"id": NAMES_FROM, "text": "2"}, {"id": NAMES_FROM, "text": "2"}],
    }  # fmt: skip


def _write(folder: Path, tables: Tables) -> Path:
    folder.mkdir()
    for name, schema in TABLES.items():
        rows = [{"run": 7, **row} for row in tables[name]]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")
    return folder


def _change(table: str, number: int, **change: Any) -> Callable[[Tables], None]:
    return lambda tables: tables[table][number].update(change)


def _add(table: str, row: Row) -> Callable[[Tables], None]:
    return lambda tables: tables[table].append(row)


CHANGES: list[tuple[str, Callable[[Tables], None]]] = [
    ("micro.parquet has another process or outcome for an operation", _change("micro", 0, outcome=FAIL)),
    ("micro.parquet has another process or outcome for an operation", _change("ops", 0, process=9)),
    ("micro.parquet has another process or outcome", _change("micro", 1, process=0, outcome=4)),
    ("micro.parquet has another process or outcome", _change("micro", 1, process=2, outcome=-4)),
    *((f"{UNFIT} (operation {2 + 4 * polled})", _change("ops", 2 * polled, f=f))
      for polled, names in enumerate((["TXN", "poll", "assign"], ["TXN", "send", "assign"])) for f in names),
    (f"{UNFIT} (operation 9)", _add("micro", _micro(9, 8, 4, True, OPEN))),
    ("records of an operation that ops.parquet has not (operation 99)", _change("micro", 3, op=99)),
    ("that ops.parquet has not (operation 1099511627775 or above)", _change("micro", 3, op=1 << 41)),
    ("has an operation below 1 or above 1099511627775", _add("ops", _op(1 << 40, 8))),
    ("records of an operation that ops.parquet has not (operation 2)", lambda tables: tables["ops"].clear()),
    ("ops.parquet has an operation twice, or in the line of an", _add("ops", _op(4, 1))),
    ("in the line of another's invocation (operation 3)", _add("ops", _op(3, 7, outcome=OPEN, invoked=3))),
    ("in the line of another's invocation (operation 4)", _add("ops", _op(21, 7, invoked=3))),
    ("ops.parquet has an outcome that is none of 0 to 3 (operation 8)", _change("ops", 3, outcome=4)),
    ("ops.parquet has an outcome that is none of 0 to 3 (operation 8)", _change("ops", 3, outcome=-1)),
    ("neither read_committed nor read_uncommitted (operation 6)", _change("ops", 2, isolation="COMMITTED")),
    ("not invoked above its own line (operation 4)", _change("ops", 1, invoked=5)),
    ("not invoked above its own line (operation 4)", _change("ops", 1, invoked=4)),
    ("not invoked above its own line (operation 4)", _change("ops", 1, invoked=0)),
    ("not invoked above its own line (operation 19)", _change("ops", 4, op=19, invoked=18)),
    ("ops.parquet has an operation below 1", _add("ops", _op(0, 8))),
    (
        "while another of it was open (operation 30)",
        lambda tables: tables["ops"].extend([_op(30, 2, f="debug", invoked=20), _op(25, 2, invoked=21)]),
    ),
    ("while another of it was open (operation 18)", _add("ops", _op(18, 4))),
    ("one of op, process, f, outcome, invoked is null (operation 8)", _change("ops", 3, process=None)),
    ("one of op, process, f, outcome, invoked is null (operation 13)", _change("ops", 6, f=None)),
    ("micro.parquet has a row in which one of op, key,", _change("micro", 0, op=None)),
    *((f"micro.parquet has a row in which one of {', '.join(REQUIRED['micro'])} is null (operation 4)",
       _change("micro", 1, **{name: None})) for name in REQUIRED["micro"] if name != "op"),
    ("names.parquet has several texts for one number", _add("names", {"id": NAMES_FROM, "text": "3"})),
    ("names.parquet has one text for several numbers", _add("names", {"id": NAMES_FROM + 1, "text": "2"})),
    *(("names.parquet has a row in which one of id, text is null", _add("names", row))
      for row in ({"id": NAMES_FROM}, {"text": "4"})),
]  # fmt: skip


def _tables(*folders: Path) -> dict[str, FileTable]:
    """Tables that are read here, without Spark."""
    return {
        name: FileTable(schema, [(n, f / f"{name}.parquet") for n, f in enumerate(folders)], TaskProcesses())
        for name, schema in TABLES.items()
    }


def _said(*folders: Path) -> dict[int, str]:
    tables = _tables(*folders)
    return find_contradictions(tables["ops"], tables["micro"], tables["names"])


def test_tables_that_agree_are_sound(tmp_path: Path) -> None:
    nothing: Tables = {"ops": [], "micro": [], "names": []}
    begun: Tables = {"ops": [_op(1, 0, outcome=OPEN, invoked=1)], "micro": [], "names": []}
    folders = [_write(tmp_path / name, one) for name, one in (("a", _sound()), ("b", nothing), ("c", begun))]
    assert _said(*folders) == {}


def test_a_negative_offset_contradicts_nothing(tmp_path: Path) -> None:
    tables = _sound()
    tables["micro"][1]["offset"] = -1
    assert _said(_write(tmp_path / "a", tables)) == {}


@pytest.mark.parametrize(("words", "change"), CHANGES)
def test_a_contradiction_is_reported(tmp_path: Path, words: str, change: Callable[[Tables], None]) -> None:
    tables = _sound()
    change(tables)
    sound, wrong = _write(tmp_path / "sound", _sound()), _write(tmp_path / "wrong", tables)
    said = _said(sound, wrong)
    assert said.keys() == {1}
    assert words in said[1]


def test_the_contradiction_of_the_lowest_operation_is_reported(tmp_path: Path) -> None:
    tables = _sound()
    tables["ops"][6]["outcome"] = 9
    tables["ops"][3]["outcome"] = 8
    tables["micro"] += [_micro(98, 8, 0), _micro(97, 7, 0), _micro(6, 9, 0)]
    assert "(operation 6)" in _said(_write(tmp_path / "a", tables))[0]


def test_the_first_operation_is_checked_too(tmp_path: Path) -> None:
    tables = _sound()
    tables["micro"][0]["outcome"] = INFO
    assert "(operation 2)" in _said(_write(tmp_path / "a", tables))[0]


def test_without_operations_there_can_be_no_records(tmp_path: Path) -> None:
    tables = _sound()
    tables["ops"].clear()
    assert "that ops.parquet has not (operation 2)" in _said(_write(tmp_path / "a", tables))[0]


def test_a_null_in_one_of_many_files_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark writes tables."""
    folder, more = _write(tmp_path / "a", _sound()), _write(tmp_path / "b", _sound())
    whole = pq.read_table(more / "micro.parquet")
    (folder / "micro.parquet").unlink()
    (folder / "micro.parquet").mkdir()
    null = whole.slice(2, 1).set_column(1, "key", pa.array([None], pa.int64()))
    for number, rows in enumerate((whole.slice(0, 2), null, whole.slice(3))):
        pq.write_table(rows, folder / "micro.parquet" / f"part-{number}.parquet")
    read = read_folders(lambda: spark, [HistoryFile(4, folder), HistoryFile(5, more)], TaskProcesses())
    assert read.errors.keys() == {4}
    assert str(read.errors[4]).startswith(f"{folder}: micro.parquet has a row in which one of op, key, value")


def test_two_records_at_one_position_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    tables = _sound()
    tables["micro"] += [_micro(2, 3, 0, n=4), _micro(6, 3, 2, True, n=2)]  # of several sends
    folders = [_write(tmp_path / "sound", tables)]
    for number, row in enumerate((0, 2, 5)):
        original = tables["micro"][row]
        second = original | {"value": 4 if number else original["value"], "offset": 4}
        folders.append(_write(tmp_path / str(number), tables | {"micro": [*tables["micro"], second]}))
    sound, *wrong = check_history_files(spark, folders, frozenset())
    assert isinstance(sound, Verdict) and sound.validity is Validity.VALID
    for answer in wrong:
        assert isinstance(answer, UnreadableInput), answer
        assert "two records of one key at the same position" in str(answer)


def _damage(folder: Path) -> Path:
    """Damage a page of a table. The footer stays whole, so that only a job notices it."""
    page = folder / "micro.parquet"
    chunk = pq.read_metadata(page).row_group(0).column(1)
    body = page.read_bytes()
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    page.write_bytes(body[:start] + b"\xff" * 60 + body[start + 60 :])
    return page


def test_a_contradictory_and_a_damaged_history_stop_no_other(spark: SparkSession, tmp_path: Path) -> None:
    contradictory, unnamed = _sound(), _sound()
    contradictory["ops"].clear()
    unnamed["names"] = [{"id": NAMES_FROM, "text": "{no"}]
    for row in unnamed["micro"]:
        row["key"] = NAMES_FROM
    del unnamed["micro"][2]  # lost: passed by, and never given
    folders = [
        _write(tmp_path / name, tables)
        for name, tables in (("a", _sound()), ("b", contradictory), ("c", unnamed), ("d", _sound()))
    ]
    text = tmp_path / "e.jsonl"  # among tables that Spark reads in their folders
    text.write_text(to_jsonl(random_history(Random(3), 30, set())))
    write(tmp_path / "damaged", 20)
    page = _damage(tmp_path / "damaged")
    asked = [*folders, text, tmp_path / "damaged", tmp_path / "none.jsonl"]
    first, second, third, last, from_text, damaged, none = check_history_files(spark, asked, frozenset())
    assert isinstance(damaged, UnreadableInput)
    assert str(damaged) == f"{page} is damaged: a part of it cannot be read"
    assert isinstance(none, UnreadableInput) and "No such file" in str(none)
    assert all(
        isinstance(one, Verdict) and one.validity is Validity.VALID for one in (first, last, from_text)
    )
    assert isinstance(second, UnreadableInput) and "b: micro.parquet has records of" in str(second)
    assert isinstance(third, UnreadableInput) and 'names.parquet has a text that is no JSON: "{no"' in str(
        third
    )
