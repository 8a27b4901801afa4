"""Files of events become tables. One job reads all of them, even if some have errors."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from checkers.histories.files import HistoryFile
from checkers.histories.names import name_of
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_files import Histories, read_texts
from harness.record.history_form import FAIL, INFO, MICRO, NAMES, OK, OPEN, OPS

X = name_of("x")[0]
BLOCK_BYTES = 64  # less than a line: many blocks hold none


def e(process: object, type: str, value: object = (), f: str = "txn", **more: object) -> dict[str, Any]:
    return {"process": process, "type": type, "f": f, "value": value, **more}


def send(value: object, offset: int | None = None, key: object = "x") -> list[object]:
    return ["send", key, value if offset is None else [offset, value]]


GOOD = [
    e(0, "invoke", [send(1), ["poll"]], time=5, isolation="read_uncommitted"),
    e(1, "invoke", [send(2)], time=6),
    e("nemesis", "info", f="kill"),
    e("nemesis", "info", f="kill"),
    e(0, "ok", [send(1, 0), ["poll", {"3": [[7, 9], [8, 10]]}]], time=7),
    e(1, "info", [send(2)]),
    e(1, "invoke", [send(4), send(5)]),
    e(2, "invoke", [3, 4], f="assign"),
    e(2, "ok", [3, 4], f="assign"),
    e(2, "invoke", [["poll"]], f="poll"),
    e(2, "fail", [["poll"]], f="poll", **{"rebalance-log": [{"keys": [3]}]}),
]


WITHOUT_VALUES = [
    e(0, "invoke", [send(1), ["poll"], send(2)]),
    e(1, "invoke", [send(3)]),
    e(0, "info", None),
    e(1, "fail", None),
    e(0, "invoke", [send(4)]),
    e(0, "fail", []),
    e(2, "invoke"),
    e(2, "ok", [send(5, 7)]),  # its invocation did not know
]


BELOW = [e(5, "invoke", [send(8)]), e(5, "ok", [send(8, -1)])]


def jsonl(events: list[Any]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else orjson.dumps(one) + b"\n" for one in events)


BAD: dict[str, tuple[bytes, int | None, str]] = {
    "no-json.jsonl": (jsonl([*GOOD, b"\n", b"nonsense\n", b"rubbish\n"]), 13, "not JSON"),
    "two-open.jsonl": (jsonl([e(0, "invoke"), b"\n", e(0, "invoke")]), 3, "while that of line 1 is open"),
    "alone.jsonl": (jsonl([e(0, "ok"), e(0, "invoke")]), 1, "process 0 completes (ok), and none is open"),
    "twice.jsonl": (jsonl([e(0, "invoke"), e(1, "invoke"), e(0, "ok"), e(0, "info")]), 4, "(info)"),
    "pair-first.jsonl": (jsonl([e(0, "ok"), b"nonsense\n"]), 1, "none is open"),
    "two-alone.jsonl": (jsonl([e(0, "ok"), e(1, "info")]), 1, "process 0 completes (ok)"),
    "line-first.jsonl": (jsonl([b"nonsense\n", e(0, "ok")]), 1, "not JSON"),
    "edn.edn": (b"{:process 0 :type :invoke :f :x}\n{:process\n", 2, "not EDN"),
    "other.jsonl": (jsonl([*GOOD, e(5, "invoke", [send(8)]), e(5, "ok", [send(9, 3)])]), 13, "other sends"),
    "other.json.gz": (gzip.compress(jsonl([e(5, "invoke", [send(8)]), e(5, "ok")])), 2, "other sends"),
    "f.jsonl": (
        jsonl([e(5, "invoke", f="poll"), e(5, "ok", f="txn")]),
        2,
        "completes a `txn`, and line 1 in",
    ),
    "f-sends.jsonl": (
        jsonl([e(5, "invoke", [send(8)], "send"), e(6, "invoke"), e(5, "info", [send(9)]), e(6, "ok")]),
        3,
        "process 5 completes a `txn`, and line 1 invoked a `send`: the two must be the same operation",
    ),
    "f-of-nobody.jsonl": (jsonl([e(5, "invoke", f="read"), e(5, "ok", f="write")]), 2, "completes a `write`"),
    "cut.jsonl.gz": (gzip.compress(jsonl(GOOD))[:-9], None, "damaged or cut off"),
    "none.jsonl.gz": (jsonl(GOOD), None, "none.jsonl.gz is not a gzip file, but its name ends in .gz"),
    "table.csv": (b"", None, "is not a history"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories [of] {any} name*")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Mapping[str, int]:
    """All files, and one that is not there."""
    edn = b"\n".join(
        [
            b'#jepsen.history.Op{:process 0, :type :invoke, :f :send, :value [[:send "x" 1]], :index 0}',
            b"; nothing",
            b'{:process 0, :type :ok, :f :send, :value ([:send "x" [3 1]]), :index 1}',
        ]
    )
    good = {
        "_good.jsonl": jsonl(GOOD),
        "good.json.gz": gzip.compress(jsonl(GOOD)),
        "packed.jsonl": gzip.compress(jsonl(GOOD)),
        "below.jsonl": jsonl(BELOW),
        "spaced.jsonl": b"\r\n\n" + jsonl(GOOD).replace(b"\n", b"\r\n \n"),
        "without-values.jsonl": jsonl(WITHOUT_VALUES),
        "without-values.json.gz": gzip.compress(jsonl(WITHOUT_VALUES)),
        "own.edn": edn,
        "own.edn.gz": gzip.compress(edn),
        "empty.jsonl": b"",
    }
    for name, data in {**good, **{name: data for name, (data, _, _) in BAD.items()}}.items():
        (folder / name).write_bytes(data)
    return {name: 10 + number for number, name in enumerate([*good, *BAD, "missing.edn"])}


@pytest.fixture(scope="module")
def read(spark: SparkSession, folder: Path, runs: Mapping[str, int]) -> Histories:
    files = [HistoryFile(run, folder / name) for name, run in runs.items()]
    return read_texts(files, TaskProcesses(), block_bytes=BLOCK_BYTES)


@pytest.fixture(scope="module")
def rows(read: Histories, runs: Mapping[str, int]) -> Callable[[str, str], list[tuple]]:
    """The rows of a table for a file, without `run`, in order."""
    collected = {
        table: [tuple(row) for row in getattr(read, table).frame().collect()]
        for table in ("ops", "micro", "names")
    }

    def of(table: str, name: str) -> list[tuple]:
        found = [row[1:] for row in collected[table] if row[0] == runs[name]]
        return sorted(found, key=lambda row: [(x is not None, x) for x in row])

    return of


OF_GOOD = [
    (5, 0, "txn", OK, 1, 5, 7, "read_uncommitted", None, None),
    (6, 1, "txn", INFO, 2, 6, None, None, None, None),
    (7, 1, "txn", OPEN, 7, None, None, None, None, None),
    (9, 2, "assign", OK, 8, None, None, None, [3, 4], None),
    (11, 2, "poll", FAIL, 10, None, None, None, None, [3]),
]
MICRO_OF_GOOD = [
    (3, 9, 7, 5, 0, 0, True, OK),
    (3, 10, 8, 5, 1, 0, True, OK),
    (X, 1, 0, 5, 0, 0, False, OK),
    (X, 2, None, 6, 0, 1, False, INFO),
    (X, 4, None, 7, 0, 1, False, OPEN),
    (X, 5, None, 7, 1, 1, False, OPEN),
]


def test_sends_without_any_completion_are_read(spark: SparkSession, tmp_path: Path):
    (tmp_path / "open.jsonl").write_bytes(jsonl([e(1, "invoke", [send(4), send(5)])]))
    read = read_texts([HistoryFile(0, tmp_path / "open.jsonl")], TaskProcesses())
    assert [row.asDict()["value"] for row in read.micro.frame().orderBy("n").collect()] == [4, 5]


@pytest.mark.parametrize("name", ["_good.jsonl", "good.json.gz", "packed.jsonl"])
def test_operations_are_invocations_with_their_completions(rows: Callable[..., list[tuple]], name: str):
    assert rows("ops", name) == OF_GOOD
    assert rows("micro", name) == MICRO_OF_GOOD


@pytest.mark.parametrize("name", ["without-values.jsonl", "without-values.json.gz"])
def test_sends_that_a_completion_omits_are_taken_from_its_invocation(
    rows: Callable[..., list[tuple]], name: str
):
    assert rows("micro", name) == [
        (X, 1, None, 3, 0, 0, False, INFO),
        (X, 2, None, 3, 1, 0, False, INFO),
        (X, 3, None, 4, 0, 1, False, FAIL),
        (X, 4, None, 6, 0, 0, False, FAIL),
        (X, 5, 7, 8, 0, 2, False, OK),
    ]


def test_a_negative_offset_is_no_offset(rows: Callable[..., list[tuple]]):
    assert rows("micro", "below.jsonl") == [(X, 8, None, 2, 0, 5, False, OK)]


def test_blank_lines_count(rows: Callable[..., list[tuple]]):
    assert [row[0] for row in rows("ops", "spaced.jsonl")] == [2 * row[0] + 1 for row in OF_GOOD]
    assert [row[4] for row in rows("ops", "spaced.jsonl")] == [2 * row[4] + 1 for row in OF_GOOD]


def test_keys_are_returned(rows: Callable[..., list[tuple]]):
    for name in ("_good.jsonl", "good.json.gz", "own.edn"):
        assert rows("names", name) == [(X, '"x"')]


@pytest.mark.parametrize("name", ["own.edn", "own.edn.gz"])
def test_edn_is_read_too(rows: Callable[..., list[tuple]], name: str):
    assert rows("ops", name) == [(3, 0, "send", OK, 1, None, None, None, None, None)]
    assert rows("micro", name) == [(X, 1, 3, 3, 0, 0, False, OK)]


@pytest.mark.parametrize("name", BAD)
def test_an_error_in_a_file_is_reported_with_its_line(
    read: Histories, rows: Callable[..., list[tuple]], runs: Mapping[str, int], name: str
):
    _, line, said = BAD[name]
    error = read.errors[runs[name]]
    assert (error.run, error.line) == (runs[name], line)
    assert said in error.message
    assert str(error).startswith("line" if line else ("the gzip" if name == "cut.jsonl.gz" else "/"))
    assert not rows("ops", name) + rows("micro", name) + rows("names", name)


def test_the_other_files_have_no_error(read: Histories, runs: Mapping[str, int]):
    assert set(read.errors) == {runs[name] for name in [*BAD, "missing.edn"]}
    assert "missing.edn cannot be read: No such file" in read.errors[runs["missing.edn"]].message


def test_an_empty_file_has_no_rows(rows: Callable[..., list[tuple]]):
    assert not rows("ops", "empty.jsonl") + rows("micro", "empty.jsonl")


def test_the_tables_have_their_columns(spark: SparkSession, read: Histories):
    from pyspark.sql.pandas.types import to_arrow_type

    nothing = read_texts([HistoryFile(1, Path("nowhere.edn"))], TaskProcesses())
    for histories in (read, nothing):
        for table, schema in ((histories.ops, OPS), (histories.micro, MICRO), (histories.names, NAMES)):
            frame = table.frame()
            assert frame.columns == schema.names
            assert [to_arrow_type(field.dataType) for field in frame.schema] == schema.types


def test_two_texts_with_one_number_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from checkers.histories import read_files as under_test

    events = [e(0, "invoke", [send("a")]), e(0, "ok", [send("a", 0)])]
    (tmp_path / "h.jsonl").write_bytes(jsonl(events))
    real = under_test._numbered

    def colliding(rows: pa.Table, errors: Any) -> pa.Table:
        names = [names and [name | {"id": 1} for name in names] for names in rows["names"].to_pylist()]
        at, field = rows.schema.get_field_index("names"), rows.schema.field("names")
        return real(rows.set_column(at, field, pa.array(names, field.type)), errors)

    monkeypatch.setattr(under_test, "_numbered", colliding)
    read = read_texts([HistoryFile(0, tmp_path / "h.jsonl")], TaskProcesses())
    assert read.errors[0].message == '"a" and "x" have the same hash: rename one of them'
