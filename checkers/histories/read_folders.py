"""Read histories that were written straight to Parquet: folders with the tables of `harness.record.history_form`.

The reader of JSON Lines reports a null, an unknown outcome, and a process with two open operations. It makes both
tables from the same lines, so they agree. Checkers read one table at a time and would not notice contradictions between
tables. So `find_contradictions` checks that the tables are consistent. Two records with one number in an operation are
noticed later (`checkers.histories.by_key`).
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.histories.arrays import make_finder, order_by
from checkers.histories.files import HistoryFile, Url
from checkers.histories.packs import LINES
from checkers.histories.processes import TaskProcesses
from checkers.histories.read_files import Histories, UnreadableHistory
from checkers.histories.table import Batches, FileTable, HistoryTable, SparkTable, collect, is_true, scan
from checkers.spark.driver import first_line, last_cause
from checkers.spark.errors import SPARK_ERRORS
from checkers.stored.sources import escape_glob
from harness.model.vocabulary import Isolation
from harness.record.history_form import OPEN, OUTCOMES, POLLING, SENDING, TABLES

REQUIRED = {
    "ops": ("op", "process", "f", "outcome", "invoked"),
    "micro": ("op", "key", "value", "n", "process", "polled", "outcome"),
    "names": ("id", "text"),
}
"""The columns that may not be null."""
ISOLATIONS = pa.array([isolation.value for isolation in Isolation])
OPERATION_CODES = pa.schema(
    [
        ("line", pa.int64()),  # run * LINES + op
        ("invoked", pa.int64()),
        ("process", pa.int64()),
        ("ending", pa.int64()),  # outcome, and whether the operation can have sent or read records
        ("wrong", pa.int64()),  # an index into WRONG; 0: nothing wrong in this row alone
    ]
)
CONTRADICTIONS = pa.schema([("line", pa.int64()), ("wrong", pa.int64())])
WRONG = (
    "",
    f"ops.parquet has a row in which one of {', '.join(REQUIRED['ops'])} is null",
    f"ops.parquet has an outcome that is none of 0 to {len(OUTCOMES) - 1}",
    f"ops.parquet has an isolation that is neither {' nor '.join(ISOLATIONS.to_pylist())}",
    (
        f"ops.parquet has an operation below 1 or above {LINES - 1}, or one that was not invoked above its "
        "own line"
    ),
    "ops.parquet has an operation twice, or in the line of another's invocation",
    "ops.parquet has an operation of a process that was invoked while another of it was open",
    f"micro.parquet has a row in which one of {', '.join(REQUIRED['micro'])} is null",
    "micro.parquet has records of an operation that ops.parquet has not",
    "micro.parquet has another process or outcome for an operation than ops.parquet",
    (
        f"micro.parquet has a record of an operation that can have none: {' and '.join(SENDING)} send, "
        f"{' and '.join(POLLING)} read, and an operation that never completed has read nothing"
    ),
)
NULL, OUTCOME, ISOLATED, ORDER, TWICE, OVERLAP, NULL_HERE, UNKNOWN, OTHERWISE, UNFIT = range(1, len(WRONG))
NAMED = {
    "id": "names.parquet has several texts for one number",
    "text": "names.parquet has one text for several numbers",
}
"""By column of `names`: the message if a value of it has several values of the other column."""
NAMELESS = f"names.parquet has a row in which one of {', '.join(REQUIRED['names'])} is null"


def read_folders(
    spark: Callable[[], SparkSession],
    folders: Sequence[HistoryFile],
    pool: TaskProcesses | None,
) -> Histories:
    """Return the tables of all folders. Their column `run` is replaced by the given number.

    Args:
        spark: waits for Spark. It is not called for folders of local files that `pool` processes
        pool: processes the tables of local files; None: a cluster processes all tables
    """
    errors: dict[int, UnreadableHistory] = {}
    for folder in folders:
        if (words := _wrong(spark, folder)) is not None:
            errors[folder.run] = UnreadableHistory(folder.run, None, words)
    tables = _tables(spark, [folder for folder in folders if folder.run not in errors], pool)
    paths = {folder.run: folder.path for folder in folders}
    for run, words in find_contradictions(tables["ops"], tables["micro"], tables["names"]).items():
        errors[run] = UnreadableHistory(run, None, f"{paths[run]}: {words}")
    sound = [folder for folder in folders if folder.run not in errors]
    return Histories(errors=errors, **_tables(spark, sound, pool))


def _tables(
    spark: Callable[[], SparkSession], sound: Sequence[HistoryFile], pool: TaskProcesses | None
) -> dict[str, HistoryTable]:
    """Return the tables of `harness.record.history_form` of all folders together."""
    all_files = all(isinstance(folder.path, Path) and _is_files(folder.path) for folder in sound)
    tables: dict[str, HistoryTable] = {}
    for name, form in TABLES.items():
        files = [(folder.run, folder.path / f"{name}.parquet") for folder in sound]
        local_files = [(run, path) for run, path in files if isinstance(path, Path)]
        if pool is not None and all_files:
            tables[name] = FileTable(form, local_files, pool)
        else:
            tables[name] = SparkTable(scan(spark(), form, files))
    return tables


def _is_files(folder: Path) -> bool:
    """Return whether each table is one file. Only Spark can read a table that is a folder of files."""
    return all((folder / f"{table}.parquet").is_file() for table in TABLES)


def _wrong(spark: Callable[[], SparkSession], folder: HistoryFile) -> str | None:
    """Return the first error in a folder's files according to their footers, or None."""
    for table, schema in TABLES.items():
        path = folder.path / f"{table}.parquet"
        try:
            sound = _has(spark, path, schema)
        except (OSError, pa.ArrowException) as error:
            return f"{path} cannot be read: {first_line(error)}"
        except SPARK_ERRORS as error:
            return f"{path} cannot be read: {last_cause(str(error))}"
        if not sound:
            return f"{path} does not have the expected columns"
    return None


def _has(spark: Callable[[], SparkSession], path: Path | Url, schema: pa.Schema) -> bool:
    """Return whether a table has this schema. Spark reads tables of many files or at a URL."""
    if isinstance(path, Path) and not path.is_dir():
        return bool(pq.read_schema(path).equals(schema))
    spark_schema = spark().read.parquet(escape_glob(path)).schema
    return [(column.name, column.dataType) for column in spark_schema] == [
        (column.name, column.dataType) for column in from_arrow_schema(schema)
    ]


def find_contradictions(ops: HistoryTable, micro: HistoryTable, names: HistoryTable) -> dict[int, str]:
    """Return by run the first contradiction: that of the lowest operation."""
    rows_of_ops = collect(ops, _operation_codes, OPERATION_CODES, ["run", *REQUIRED["ops"], "isolation"])
    line, invoked, process, ending, wrong = (rows_of_ops[name].to_numpy() for name in OPERATION_CODES.names)
    order = np.argsort(line, kind="stable")
    line, invoked, process, ending, wrong = (
        column[order] for column in (line, invoked, process, ending, wrong)
    )
    wrong = np.where(wrong == 0, _of_lines(line, invoked), wrong)
    wrong = np.where(wrong == 0, _of_processes(line, invoked, process), wrong)
    first = _first_of_runs(line, np.flatnonzero(wrong))
    wrong_lines = set(zip(line[first].tolist(), wrong[first].tolist(), strict=True))
    compare = _compare_with_ops(line, process, ending)
    rows_of_micro = collect(micro, compare, CONTRADICTIONS, ["run", *sorted(REQUIRED["micro"])])
    wrong_lines |= set(zip(*(rows_of_micro[name].to_pylist() for name in CONTRADICTIONS.names), strict=True))
    words = {
        at // LINES: f"{WRONG[what]} (operation {_number(at % LINES)})"
        for at, what in sorted(wrong_lines, reverse=True)
    }
    return _of_names(names) | words


def _number(op: int) -> str:
    return str(op) if op < LINES - 1 else f"{op} or above"


def _of_lines(line: np.ndarray, invoked: np.ndarray) -> np.ndarray:
    """Return TWICE where the line of an operation or of its invocation is used twice."""
    lines = np.concatenate([line, invoked[invoked != line]])
    ordered = np.sort(lines)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return np.where(np.isin(line, shared) | np.isin(invoked, shared), TWICE, 0)


def _of_processes(line: np.ndarray, invoked: np.ndarray, process: np.ndarray) -> np.ndarray:
    """Return OVERLAP where an operation was invoked before the previous operation of its process had completed.

    An operation that never completed has the line of its invocation.
    """
    codes = np.zeros(len(line), np.int64)
    order = order_by(process, line)
    following, previous = order[1:], order[:-1]
    same = (process[following] == process[previous]) & (line[following] // LINES == line[previous] // LINES)
    codes[
        following[same & ((invoked[following] < line[previous]) | (invoked[previous] == line[previous]))]
    ] = OVERLAP
    return codes


def _first_of_runs(line: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the first of these rows in each run. Their lines are sorted."""
    _, first = np.unique(line[rows] // LINES, return_index=True)
    first_rows: np.ndarray = rows[first]
    return first_rows


def _operation_codes(batches: Batches) -> Batches:
    """Yield for each operation the facts with which its micro-operations must agree, and its own contradiction."""
    for rows in batches:
        outcome, op, invoked = (_numbers(rows, name) for name in ("outcome", "op", "invoked"))
        isolated = pc.or_(pc.is_in(rows["isolation"], ISOLATIONS), rows["isolation"].is_null())
        conditions = {
            NULL: _lacks(rows, "ops"),
            OUTCOME: (outcome < 0) | (outcome >= len(OUTCOMES)),
            ISOLATED: ~isolated.to_numpy(zero_copy_only=False),
            ORDER: ((op >= LINES) | (invoked < 1) | (invoked > op) | ((invoked == op) != (outcome == OPEN))),
        }
        columns = [
            _line(rows, "op"),
            _line(rows, "invoked"),
            _numbers(rows, "process"),
            4 * outcome + 2 * (_is_in(rows["f"], POLLING) & (outcome != OPEN)) + _is_in(rows["f"], SENDING),
            np.select(list(conditions.values()), list(conditions), 0),
        ]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=OPERATION_CODES)


def _compare_with_ops(
    line: np.ndarray, process: np.ndarray, ending: np.ndarray
) -> Callable[[Batches], Batches]:
    """Return a function that finds the first row of each run that contradicts the table ops."""
    find = make_finder(line) if len(line) else lambda wanted: np.full(len(wanted), -1)

    def contradictions(batches: Batches) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            wanted = _line(rows, "op")
            at = find(wanted)
            wrong = np.where(at < 0, UNKNOWN, 0)
            known_rows = np.flatnonzero(at >= 0)
            code, of_polls = ending[at[known_rows]], is_true(rows["polled"])[known_rows]
            wrong[known_rows[(code & np.where(of_polls, 2, 1)) == 0]] = UNFIT
            same = code >> 2 == _numbers(rows, "outcome")[known_rows]
            same &= process[at[known_rows]] == _numbers(rows, "process")[known_rows]
            wrong[known_rows[~same]] = OTHERWISE
            wrong[_lacks(rows, "micro")] = NULL_HERE
            wrong_rows = np.flatnonzero(wrong)
            first = _first_of_runs(wanted, wrong_rows[np.argsort(wanted[wrong_rows], kind="stable")])
            yield pa.RecordBatch.from_arrays(
                [pa.array(wanted[first]), pa.array(wrong[first])], schema=CONTRADICTIONS
            )

    return contradictions


def _of_names(names: HistoryTable) -> dict[int, str]:
    """Return by run the contradiction in its names."""
    rows = names.rows()
    words: dict[int, str] = {}
    for name, other_name in (("id", "text"), ("text", "id")):
        counted = rows.group_by(["run", name]).aggregate([(other_name, "count_distinct")])
        several = counted.filter(pc.greater(counted[f"{other_name}_count_distinct"], 1))
        words |= dict.fromkeys(several["run"].to_pylist(), NAMED[name])
    null = rows.filter(pa.array(_lacks(rows, "names")))
    return words | dict.fromkeys(null["run"].to_pylist(), NAMELESS)


def _lacks(rows: pa.RecordBatch | pa.Table, table: str) -> np.ndarray:
    """Return for each row whether a required column is null."""
    lacks = np.zeros(len(rows), bool)
    for name in REQUIRED[table]:
        if rows[name].null_count:
            lacks |= rows[name].is_null().to_numpy(zero_copy_only=False)
    return lacks


def _line(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """Return the line with the run in its upper bits. Values that are not lines become 0 or the last possible
    line.
    """
    line: np.ndarray = rows["run"].to_numpy() * LINES + np.clip(_numbers(rows, name), 0, LINES - 1)
    return line


def _is_in(column: pa.Array, words: Sequence[str]) -> np.ndarray:
    return is_true(pc.is_in(column, pa.array(words)))


def _numbers(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """Return a column as 64-bit numbers; null is -1."""
    numbers: np.ndarray = pc.fill_null(rows[name], -1).to_numpy().astype(np.int64)
    return numbers
