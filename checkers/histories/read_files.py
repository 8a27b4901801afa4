"""Read files of external histories without Spark: parse them, pair invocations with completions, and report errors.

Spark takes some seconds to start and to do its first job. So processes of this machine parse the blocks meanwhile, and
the tables of all files are written to Parquet files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from checkers.histories.arrays import codes, order_by
from checkers.histories.blocks import BLOCK_BYTES, BLOCK_ROWS, OTHER_SENDS, Block, blocks_of, write_block
from checkers.histories.files import HistoryFile
from checkers.histories.processes import TaskProcesses
from checkers.histories.table import FileTable, HistoryTable, SparkTable, union_tables
from checkers.spark.frames import local_table
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import EventType
from harness.record.history_form import FAIL, INFO, MICRO, NAMES, OK, OPEN, OPS, TABLES

LEAST_BYTES = 2 << 20
"""Less text than this is parsed in this process: another takes longer to start."""
F_CHARACTERS = 60
"""The longest operation name (`f`) to show in a message."""
GROUP_ROWS = 250_000
"""The rows of a row group, which a task of Spark reads."""
OUTCOMES = {EventType.OK.value: OK, EventType.INFO.value: INFO, EventType.FAIL.value: FAIL}


@dataclass(frozen=True, order=True)
class UnreadableHistory:
    """The first reason why a history cannot be checked. `line` counts from 1; None: the reason is not in a line."""

    run: int
    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class Histories:
    """The tables of `harness.record.history_form`, without the runs in `errors`."""

    ops: HistoryTable
    micro: HistoryTable
    names: HistoryTable
    errors: Mapping[int, UnreadableHistory]  # by run

    def with_more(self, more: "Histories") -> "Histories":
        """Return these histories together with others of other runs."""
        return Histories(
            union_tables(self.ops, more.ops),
            union_tables(self.micro, more.micro),
            union_tables(self.names, more.names),
            {**self.errors, **more.errors},
        )


def read_texts(
    histories: Sequence[HistoryFile],
    pool: TaskProcesses,
    cluster: SparkSession | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Histories:
    """Parse all files once. Unreadable files do not raise; they are in `errors`.

    Args:
        pool: parses large files
        cluster: gets the rows, because its workers cannot open the files with the tables; None: there is no cluster
        block_bytes: the size of the parts of a file that are parsed one by one
    """
    blocks, errors = _plan(histories, block_bytes)
    here = sum(block.cost for block in blocks) < LEAST_BYTES
    with pool.new_folder() as folder:
        paths = [Path(folder) / f"{number}.arrow" for number in range(len(blocks))]
        calls = [partial(write_block, block, path) for block, path in zip(blocks, paths, strict=True)]
        pool.call_all(calls, here=here)
        parsed = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in paths]
        tables = _make_tables(pa.concat_tables([BLOCK_ROWS.empty_table(), *parsed]), errors)
    if cluster is not None:
        of_spark = {name: SparkTable(local_table(cluster, table)) for name, table in tables.items()}
        return Histories(errors=errors, **of_spark)
    owner = pool.new_folder()
    of_files = {}
    for name, table in tables.items():
        path = Path(owner.name) / f"{name}.parquet"
        pq.write_table(table, path, compression="lz4", row_group_size=GROUP_ROWS)
        of_files[name] = FileTable(TABLES[name], [(None, path)], pool, owner)
    return Histories(errors=errors, **of_files)


def _make_tables(rows: pa.Table, errors: dict[int, UnreadableHistory]) -> dict[str, pa.Table]:
    """Return the tables of the histories without errors. Their errors are added to `errors`."""
    events = _numbered(rows, errors)
    paired = _Paired.of(events)
    names, collisions = _names(events)
    carried = _carried(events, paired)
    _note(errors, [*paired.problems(), *collisions, *carried.problems])
    sound = [run for run in pc.unique(events["run"]).to_pylist() if run not in errors]
    tables = {"ops": paired.ops(), "micro": _micro(events, paired, carried), "names": names}
    wanted = pa.array(sound, pa.int64())
    return {name: table.filter(pc.is_in(table["run"], wanted)) for name, table in tables.items()}


def _plan(
    histories: Sequence[HistoryFile], block_bytes: int
) -> tuple[list[Block], dict[int, UnreadableHistory]]:
    """Return the blocks of all files, and errors of unreadable files."""
    blocks: list[Block] = []
    errors: dict[int, UnreadableHistory] = {}
    for history in histories:
        assert isinstance(history.path, Path), "only a folder of tables can be at a URL"
        try:
            blocks += blocks_of(history.run, history.path, block_bytes)
        except UnreadableInput as error:
            errors[history.run] = UnreadableHistory(history.run, None, str(error))
    return blocks, errors


def _numbered(rows: pa.Table, errors: dict[int, UnreadableHistory]) -> pa.Table:
    """Return the events of numbered processes, sorted by run, process and line. `op` is the line in the file, from 1.

    The first error of each file is added to `errors`.
    """
    ends = rows.filter(rows["lines"].is_valid()).select(["run", "block", "line", "error", "lines"])
    first_lines: dict[tuple[int, int], int] = {}
    following: dict[int, int] = {}
    for row in sorted(ends.to_pylist(), key=lambda row: (row["run"], row["block"])):
        run = row["run"]
        first = first_lines[run, row["block"]] = following.get(run, 1)
        following[run] = first + row["lines"]
        if row["error"] is not None:
            line = None if row["line"] is None else first + row["line"]
            errors.setdefault(run, UnreadableHistory(run, line, row["error"]))
    events = rows.filter(rows["process"].is_valid())
    run_of, block_of = _numbers(events, "run"), _numbers(events, "block")
    numbered = codes(run_of, block_of)
    _, some = np.unique(numbered, return_index=True)  # a row of each block
    firsts = np.array([first_lines[int(run_of[row]), int(block_of[row])] for row in some], np.int64)
    op = _numbers(events, "line") + firsts[numbered]
    events = events.append_column("op", pa.array(op))
    order = order_by(run_of, _numbers(events, "process"), op)
    return events.take(pa.array(order)).combine_chunks()


@dataclass(frozen=True)
class _Paired:
    """Which events are an operation with the one before them. An operation is an invocation and the next event of its
    process, which must be a completion of the same kind.
    """

    events: pa.Table
    rows: np.ndarray  # the events that stand for an operation: completions, and invocations without one
    invokes: np.ndarray  # for each event
    before: np.ndarray  # for each event: whether the row before it is of the same run and process
    twice: np.ndarray  # for each event: the process has invoked another one
    alone: np.ndarray  # for each event: no operation of the process is open
    other_kind: np.ndarray  # for each event: the invocation is of another kind

    @classmethod
    def of(cls, events: pa.Table) -> "_Paired":
        run, process = _numbers(events, "run"), _numbers(events, "process")
        invokes = _is(events["type"], EventType.INVOKE.value)
        before = np.zeros(len(events), bool)
        before[1:] = (run[1:] == run[:-1]) & (process[1:] == process[:-1])
        is_last = np.append(~before[1:], True)[: len(events)]
        after_invocation = np.zeros(len(events), bool)
        after_invocation[1:] = before[1:] & invokes[:-1]
        kinds = (
            pc.fill_null(events["f"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
            if len(events)
            else np.empty(0)
        )
        differs = np.zeros(len(events), bool)
        differs[1:] = before[1:] & (kinds[1:] != kinds[:-1])
        return cls(
            events,
            np.flatnonzero(~invokes | is_last | after_invocation),
            invokes,
            before,
            invokes & after_invocation,
            ~invokes & ~after_invocation,
            ~invokes & differs,
        )

    def ops(self) -> pa.Table:
        """Return OPS."""
        rows = self.rows
        own, previous = self.events.take(pa.array(rows)), self.events.take(pa.array(np.maximum(rows - 1, 0)))
        invokes, known = pa.array(self.invokes[rows]), pa.array(self.before[rows])
        before = {name: pc.if_else(known, previous[name], None) for name in ("op", "time", "isolation")}
        return pa.table(
            {
                "run": own["run"],
                "op": own["op"],
                "process": own["process"],
                "f": own["f"],
                "outcome": pa.array(self.outcomes[rows], pa.int8()),
                "invoked": pc.if_else(invokes, own["op"], before["op"]),
                "invoke_ns": pc.if_else(invokes, own["time"], before["time"]),
                "complete_ns": pc.if_else(invokes, None, own["time"]),
                "isolation": pc.if_else(
                    invokes, own["isolation"], pc.coalesce(own["isolation"], before["isolation"])
                ),
                "keys": own["keys"],
                "rebalanced": own["rebalanced"],
            }
        ).cast(OPS)

    @property
    def outcomes(self) -> np.ndarray:
        """For each event: the index of its type into OUTCOMES. An invocation is open."""
        codes = np.full(len(self.events), FAIL, np.int8)
        for kind, code in OUTCOMES.items():
            codes[_is(self.events["type"], kind)] = code
        codes[self.invokes] = OPEN
        return codes

    def problems(self) -> list[tuple[int, int | None, str]]:
        """Return the first problem of each run: run, line, message."""
        wrong = self.rows[(self.twice | self.alone | self.other_kind)[self.rows]]
        run, op = _numbers(self.events, "run")[wrong], _numbers(self.events, "op")[wrong]
        order = order_by(run, op)
        _, first = np.unique(run[order], return_index=True)
        return [self._problem(int(row)) for row in wrong[order[first]]]

    def _problem(self, row: int) -> tuple[int, int | None, str]:
        event, before = (self.events.slice(at, 1).to_pylist()[0] for at in (row, max(row - 1, 0)))
        process, last_op = event["process"], before["op"]
        if self.twice[row]:
            words = f"process {process} invokes an operation while that of line {last_op} is open"
        elif self.alone[row]:
            words = f"an operation of process {process} completes ({event['type']}), and none is open"
        else:
            words = (
                f"process {process} completes a `{event['f'][:F_CHARACTERS]}`, and line {last_op} invoked a "
                f"`{before['f'][:F_CHARACTERS]}`: the two must be the same operation"
            )
        return event["run"], event["op"], words


@dataclass(frozen=True)
class _Carried:
    """The completions that take the sends of their invocation, and those that name other sends."""

    rows: np.ndarray  # completions: events
    invocations: np.ndarray  # for each: the event with its sends
    problems: Sequence[tuple[int, int | None, str]]


def _carried(events: pa.Table, paired: _Paired) -> _Carried:
    """Find the completions in another block than their invocation, and those that do not name the sends.

    The invocations that still have sends are those; the others have been compared in their block.
    """
    lengths = pc.fill_null(pc.list_value_length(events["sends"]), 0).to_numpy()
    rows = np.flatnonzero(~paired.invokes & paired.before)
    rows = rows[(paired.invokes & (lengths > 0))[rows - 1]]
    null = events["sends"].is_null().to_numpy()
    naming = rows[~null[rows]]
    wrong = naming[[not _same_sends(events, int(row)) for row in naming]] if len(naming) else naming
    problems = [
        (event["run"], event["op"], OTHER_SENDS)
        for event in events.select(["run", "op"]).take(pa.array(wrong, pa.int64())).to_pylist()
    ]
    taking = rows[null[rows]]
    return _Carried(taking, taking - 1, problems)


def _same_sends(events: pa.Table, row: int) -> bool:
    own, begun = (
        [(sent["key"], sent["value"]) for sent in events["sends"][at].as_py()] for at in (row, row - 1)
    )
    return own == begun


def _names(events: pa.Table) -> tuple[pa.Table, list[tuple[int, int | None, str]]]:
    """Return NAMES, and a problem for each run in which two texts have one number."""
    named = events.filter(pc.greater(pc.list_value_length(events["names"]), 0)).select(["run", "names"])
    if not len(named):
        return NAMES.empty_table(), []
    column = named["names"].combine_chunks()
    texts = pc.list_flatten(column)
    runs = named["run"].combine_chunks().take(pc.list_parent_indices(column))
    table = pa.table({"run": runs, "id": texts.field("id"), "text": texts.field("text")})
    table = table.group_by(["run", "id"]).aggregate([("text", "min"), ("text", "max")])
    collide = table.filter(pc.not_equal(table["text_min"], table["text_max"])).to_pylist()
    problems: list[tuple[int, int | None, str]] = [
        (row["run"], None, f"{row['text_min']} and {row['text_max']} have the same hash: rename one of them")
        for row in sorted(collide, key=lambda row: str(row["text_min"]))
    ]
    return table.select(["run", "id", "text_min"]).rename_columns(NAMES.names).cast(NAMES), problems


def _note(errors: dict[int, UnreadableHistory], problems: Sequence[tuple[int, int | None, str]]) -> None:
    """Add the first problem of each run to `errors`. One without a line is the first."""
    for run, line, message in sorted(
        problems, key=lambda each: (each[0], -1 if each[1] is None else each[1])
    ):
        earlier = errors.get(run)
        if earlier is None or (earlier.line is not None and line is not None and line < earlier.line):
            errors[run] = UnreadableHistory(run, line, message)


def _micro(events: pa.Table, paired: _Paired, carried: _Carried) -> pa.Table:
    """Return MICRO: the records that completions name.

    For operations that never completed, or whose completion does not name them, these are the sends of the
    invocation.
    """
    outcomes = paired.outcomes
    completions = np.flatnonzero(~paired.invokes)
    still_open = paired.rows[paired.invokes[paired.rows]]
    parts = [
        _records(events, "sends", completions, completions, outcomes),
        _records(events, "polls", completions, completions, outcomes),
        _records(events, "sends", carried.invocations, carried.rows, outcomes),
        _records(events, "sends", still_open, still_open, outcomes),
    ]
    return pa.concat_tables(parts)


def _records(
    events: pa.Table, column: str, rows: np.ndarray, operations: np.ndarray, outcomes: np.ndarray
) -> pa.Table:
    """Return the records in the lists (sends or polls) of these events, as those of the operations."""
    lists: Any = events[column].take(pa.array(rows, pa.int64())).combine_chunks()
    if isinstance(lists, pa.ChunkedArray):  # no rows
        lists = pa.array([], events.schema.field(column).type)
    parents = pc.list_parent_indices(lists).to_numpy()
    records = pc.list_flatten(lists)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    of = operations[parents]
    return pa.table(
        {
            "run": _numbers(events, "run")[of],
            "key": records.field("key"),
            "value": records.field("value"),
            "offset": records.field("offset"),
            "op": _numbers(events, "op")[of],
            "n": pa.array((np.arange(len(parents)) - starts[parents]).astype(np.int32)),
            "process": _numbers(events, "process")[of],
            "polled": pa.array(np.full(len(parents), column == "polls")),
            "outcome": pa.array(outcomes[of], pa.int8()),
        }
    ).cast(MICRO)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    numbers: np.ndarray = table[name].to_numpy().astype(np.int64)
    return numbers


def _is(column: pa.ChunkedArray, value: str) -> np.ndarray:
    same: np.ndarray = pc.fill_null(pc.equal(column, value), False).to_numpy().astype(bool)
    return same
