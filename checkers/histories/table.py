"""A table of histories: rows in Spark, or local files. Counts and lookups of operations.

Rows are processed by a function of Arrow batches. Tasks of Spark apply it to Spark's rows, and processes of this
machine to local files (`checkers.histories.processes`). The results of both are tables again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from errno import EIO
from functools import partial, reduce
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.histories.files import Url
from checkers.histories.processes import TaskProcesses, share
from checkers.spark.frames import checkpoint, local_table
from checkers.stored.sources import escape_glob
from harness.common.errors import UnreadableInput
from harness.model.vocabulary import Isolation
from harness.record import history_form
from harness.record.history_form import OK, OUTCOMES

Batches = Iterator[pa.RecordBatch]
BatchFunction = Callable[[Batches], Batches]
BATCH_ROWS = 1_000_000
"""The largest number of rows in a batch of a file."""
HERE_BYTES = 16 << 20
"""A table with less than this is processed in this process: another takes longer to start."""
TASK_BYTES = 96 << 20
"""A task gets files or groups of about this size, two million sends and reads, and needs ten times as much memory."""
LEAST_TASK_BYTES = 8 << 20
ROW_BYTES = 56
"""The size of a row of MICRO in memory. Rows of other tables are taken to be as large."""
FEW_ROWS = 20_000
"""A result with at most this many rows is given to Spark as values, so that Spark knows which tables are empty."""


class HistoryTable(Protocol):
    """All rows of some histories."""

    def frame(self) -> DataFrame:
        """Return the rows as a DataFrame."""
        ...

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str] = ()) -> "HistoryTable":
        """Apply `act` to these columns, or to all, in tasks."""
        ...

    def by_group(self, act: BatchFunction, form: pa.Schema, groups: int | None = None) -> "HistoryTable":
        """Apply `act` in tasks that each have all rows of their groups, which the column `group` numbers.

        `groups`: a number of tasks, each for few groups. With it, large groups are not combined in a task.
        """
        ...

    def part(self, name: str) -> "HistoryTable":
        """Return the column `name`, a struct, as a table: its fields in the rows in which it is not null."""
        ...

    def rows(self) -> pa.Table:
        """Return all rows."""
        ...

    def rows_if_few(self) -> pa.Table | None:
        """Return all rows, or None if there are more than FEW_ROWS."""
        ...


def collect(
    table: HistoryTable, act: BatchFunction, form: pa.Schema, columns: Sequence[str] = ()
) -> pa.Table:
    """Apply `act` to these columns in tasks, and return the result, which must be small."""
    return table.in_tasks(act, form, columns).rows()


@dataclass(frozen=True)
class SparkTable:
    """Rows in Spark."""

    data: DataFrame

    def frame(self) -> DataFrame:
        return self.data

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str] = ()) -> "SparkTable":
        frame = self.data.select(*columns) if columns else self.data
        return SparkTable(frame.mapInArrow(act, from_arrow_schema(form)))

    def by_group(self, act: BatchFunction, form: pa.Schema, groups: int | None = None) -> "SparkTable":
        dealt = self.data.repartition("group") if groups is None else self.data.repartition(groups, "group")
        return SparkTable(checkpoint(dealt.mapInArrow(act, from_arrow_schema(form))))

    def part(self, name: str) -> "SparkTable":
        return SparkTable(self.data.where(F.col(name).isNotNull()).select(f"{name}.*"))

    def rows(self) -> pa.Table:
        return self.data.toArrow()

    def rows_if_few(self) -> pa.Table | None:
        few = self.data.limit(FEW_ROWS + 1).toArrow()
        return few if few.num_rows <= FEW_ROWS else None


@dataclass(frozen=True)
class _Span:
    """The part of a file that a task reads."""

    path: str
    size_bytes: int
    run: int | None = None  # the number of its history; None: its column `run` has it
    group: int | None = None  # the row group of a Parquet file; None: an Arrow file
    part: int = 0  # of the row group
    parts: int = 1
    groups: tuple[int, int] | None = None  # the lowest and the highest `group` of the rows to read
    struct: str | None = None  # read the fields of this column


@dataclass(frozen=True)
class FileTable:
    """Files that each process of this machine can open: Parquet files, or Arrow files that processes have written."""

    form: pa.Schema
    files: Sequence[tuple[int | None, Path]]  # with the number of its history; None: its column `run` has it
    pool: TaskProcesses  # processes large tables
    owner: object = None  # keeps the files as long as this table
    struct: str | None = None  # the rows are the fields of this column

    def frame(self) -> DataFrame:
        spark = SparkSession.active()
        if any(path.suffix == ".parquet" for _, path in self.files):
            return scan(spark, self.form, self.files)
        paths = pa.table({"path": pa.array([str(path) for _, path in self.files], pa.string())})
        read = partial(_read_files, form=self.form, struct=self.struct)
        return checkpoint(local_table(spark, paths).mapInArrow(read, from_arrow_schema(self.form)))

    def in_tasks(self, act: BatchFunction, form: pa.Schema, columns: Sequence[str] = ()) -> "FileTable":
        spans = self._spans()
        size_bytes = sum(span.size_bytes for span in spans)
        count = self.pool.count
        if 0 < len(spans) < count and size_bytes >= HERE_BYTES:
            spans = [part for span in spans for part in _split(span, -(-count // len(spans)))]
        share_bytes = min(max(size_bytes // (4 * count), LEAST_TASK_BYTES), TASK_BYTES)
        ends = (
            np.cumsum([span.size_bytes for span in spans]) if size_bytes >= HERE_BYTES else [0] * len(spans)
        )
        tasks = [
            [span for _, span in share]
            for _, share in groupby(zip(ends, spans, strict=True), lambda each: int(each[0]) // share_bytes)
        ]
        wanted = pa.schema([self.form.field(name) for name in columns]) if columns else self.form
        return self._done(tasks, act, wanted, form)

    def by_group(self, act: BatchFunction, form: pa.Schema, groups: int | None = None) -> "FileTable":
        spans = self._spans()
        sizes = _group_sizes(spans)
        if groups is not None and sizes.sum() >= HERE_BYTES:
            shares = [(int(group), int(group)) for group in np.flatnonzero(sizes)]
        else:
            before = np.cumsum(sizes) - sizes
            share_bytes = min(TASK_BYTES, max(int(sizes.sum()) // self.pool.count, HERE_BYTES, 1))
            starts = np.flatnonzero(np.diff(before // share_bytes, prepend=-1))
            ends = np.append(starts[1:], len(sizes))[: len(starts)] - 1
            shares = list(zip(starts.tolist(), ends.tolist(), strict=True))
        tasks = [
            [
                replace(span, groups=(low, high), size_bytes=int(sizes[low : high + 1].sum()) // len(spans))
                for span in spans
            ]
            for low, high in shares
        ]
        return self._done(tasks, act, self.form, form)

    def part(self, name: str) -> "FileTable":
        return replace(self, form=pa.schema(list(self.form.field(name).type)), struct=name)

    def rows(self) -> pa.Table:
        (rows,) = self.pool.call_all([self._all_rows], here=True)
        return rows

    def _all_rows(self) -> pa.Table:
        return pa.Table.from_batches(_read(self._spans(), self.form), self.form)

    def rows_if_few(self) -> pa.Table | None:
        (rows,) = self.pool.call_all([self._few_rows], here=True)
        return rows

    def _few_rows(self) -> pa.Table | None:
        batches, count = [], 0
        for batch in _read(self._spans(), self.form):
            batches.append(batch)
            count += batch.num_rows
            if count > FEW_ROWS:
                return None
        return pa.Table.from_batches(batches, self.form)

    def _spans(self) -> list[_Span]:
        spans: list[_Span] = []
        for run, path in self.files:
            if path.suffix == ".parquet":
                footer = pq.read_metadata(path)
                spans += [
                    _Span(str(path), footer.row_group(group).num_rows * ROW_BYTES, run, group)
                    for group in range(footer.num_row_groups)
                ]
            else:
                spans.append(_Span(str(path), path.stat().st_size, run, struct=self.struct))
        return spans

    def _done(
        self, tasks: Sequence[Sequence[_Span]], act: BatchFunction, wanted: pa.Schema, form: pa.Schema
    ) -> "FileTable":
        """Apply `act` to each list of spans. Returns a table of the files that this writes."""
        here = sum(span.size_bytes for spans in tasks for span in spans) < HERE_BYTES
        folder = self.pool.new_folder()
        paths = [Path(folder.name) / f"{number}.arrow" for number in range(len(tasks))]
        get_act = partial(_same, act) if here else share(act, Path(folder.name) / "act")
        calls = [
            partial(_write, path, get_act, spans, wanted, form)
            for spans, path in zip(tasks, paths, strict=True)
        ]
        self.pool.call_all(calls, here=here)
        return FileTable(form, [(None, path) for path in paths], self.pool, folder)


def scan(spark: SparkSession, form: pa.Schema, files: Iterable[tuple[int | None, Path | Url]]) -> DataFrame:
    """Return the rows of Parquet files at paths or URLs, read by Spark."""
    read = spark.read.schema(from_arrow_schema(form))
    numbered = [
        rows if run is None else rows.withColumn("run", F.lit(run).cast("bigint"))
        for run, path in files
        for rows in [read.parquet(escape_glob(path))]
    ]
    return reduce(DataFrame.unionByName, numbered) if numbered else local_table(spark, form.empty_table())


def union_tables(table: HistoryTable, other_table: HistoryTable) -> HistoryTable:
    """Return the rows of both tables."""
    if isinstance(table, FileTable) and isinstance(other_table, FileTable):
        assert table.struct is None and other_table.struct is None, "the parts of tables are not united"
        owners = (table.owner, other_table.owner)
        return FileTable(table.form, [*table.files, *other_table.files], table.pool, owners)
    return SparkTable(table.frame().unionByName(other_table.frame()))


def _split(span: _Span, parts: int) -> list[_Span]:
    """Return the parts of a row group. An Arrow file is not split."""
    if span.group is None:
        return [span]
    return [
        replace(span, part=part, parts=parts, size_bytes=span.size_bytes // parts) for part in range(parts)
    ]


def _group_sizes(spans: Sequence[_Span]) -> np.ndarray:
    """Return by group about the size of its rows; 0: it has none."""
    sizes = np.zeros(0)
    for span in spans:
        for rows in _arrow_batches(span):
            columns = [column for column in rows.columns if pa.types.is_binary(column.type)]
            lengths = [pc.fill_null(pc.binary_length(column), 0).to_numpy() for column in columns]
            held = np.bincount(rows["group"].to_numpy(), 1 + np.sum(lengths, axis=0))
            sizes = np.pad(sizes, (0, max(len(held) - len(sizes), 0)))
            sizes[: len(held)] += held
    return sizes.astype(np.int64)


def _same(act: BatchFunction) -> BatchFunction:
    return act


def _write(
    path: Path, act: Callable[[], BatchFunction], spans: Sequence[_Span], wanted: pa.Schema, form: pa.Schema
) -> None:
    """Apply `act` to what these spans have of the wanted columns, and write the result to a file."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, form) as writer:
        for rows in act()(_read(spans, wanted)):
            writer.write_batch(rows)


def _read_files(batches: Batches, form: pa.Schema, struct: str | None) -> Batches:
    """In a Spark task: yield the rows of the Arrow files whose paths the batches have."""
    paths = (path for batch in batches for path in batch["path"].to_pylist())
    yield from _read((_Span(path, 0, struct=struct) for path in paths), form)


def _read(spans: Iterable[_Span], wanted: pa.Schema) -> Batches:
    """Yield the wanted columns of each span. Each part of a row group gets its share of the batches."""
    for span in spans:
        try:
            yield from _arrow_rows(span, wanted) if span.group is None else _parquet_rows(span, wanted)
        except MemoryError:
            raise
        except (OSError, pa.ArrowException) as error:
            # The system's other errors say nothing about the file.
            if span.group is None or getattr(error, "errno", None) not in {None, EIO}:
                raise
            raise UnreadableInput(f"{span.path} is damaged: a part of it cannot be read") from error


def _parquet_rows(span: _Span, wanted: pa.Schema) -> Batches:
    assert wanted.names[0] == "run"
    file = pq.ParquetFile(span.path, page_checksum_verification=True)
    size = min(BATCH_ROWS, max(ceil(file.metadata.row_group(span.group).num_rows / span.parts), 1))
    names = wanted.names if span.run is None else wanted.names[1:]
    for number, rows in enumerate(file.iter_batches(size, row_groups=[span.group], columns=names)):
        if number % span.parts == span.part:
            own = [] if span.run is None else [pa.repeat(pa.scalar(span.run, pa.int64()), len(rows))]
            yield pa.RecordBatch.from_arrays([*own, *(rows[name] for name in names)], schema=wanted)


def _arrow_rows(span: _Span, wanted: pa.Schema) -> Batches:
    for rows in _arrow_batches(span):
        if span.struct is not None:
            column = rows[span.struct]
            if column.null_count < len(column):
                fields = cast("pa.StructArray", column.drop_null()).flatten()
                yield pa.RecordBatch.from_arrays(fields, schema=wanted)
        elif span.groups is not None:
            low, high = span.groups
            group = rows["group"]
            yield rows.filter(pc.and_(pc.greater_equal(group, low), pc.less_equal(group, high)))
        else:
            yield rows.select(wanted.names)


def _arrow_batches(span: _Span) -> Batches:
    # The batches keep the file mapped.
    file = pa.ipc.open_file(pa.memory_map(span.path))
    yield from map(file.get_batch, range(file.num_record_batches))


EFFECTIVE = pa.array(history_form.EFFECTIVE)
ASSIGNS = pa.array(["assign", "subscribe"])
KNOWN = pa.array(history_form.KNOWN)
Numbers = dict[int, Counter[str]]
COUNTED = ("run", "outcome", "f", "isolation", "rebalanced")
"""The columns that are counted."""
COUNTS = pa.schema(
    [
        (name, pa.int64())
        for name in (
            "run",
            "ops",
            *OUTCOMES,
            "committed",
            "aborted",
            "subscribes",
            "turns",
            "uncommitted",
            "passed_over",
        )
    ]
)
"""By run. `turns`: operations that can change the keys of a process; `uncommitted`: operations that read uncommitted
records; `passed_over`: operations of unknown kinds.
"""


KINDS = pa.schema([("run", pa.int64()), ("f", pa.string()), ("many", pa.int64())])
MOST_KINDS = 10_000


def count_operations(ops: HistoryTable) -> Numbers:
    """Return by run the counts of `COUNTS`."""
    numbers: Numbers = {}
    for row in collect(ops, _count, COUNTS, COUNTED).to_pylist():
        numbers.setdefault(row.pop("run"), Counter()).update(row)
    return numbers


def kinds_passed_over(ops: HistoryTable, runs: Set[int]) -> dict[int, Counter[str]]:
    """Return by run the unknown kinds (`f`) of operations, and how many there are of each.

    Only the MOST_KINDS most frequent kinds of each batch are counted.
    """
    kinds: dict[int, Counter[str]] = {run: Counter() for run in runs}
    if runs:
        for row in collect(ops, _kinds(sorted(runs)), KINDS, ("run", "f")).to_pylist():
            kinds[row["run"]][row["f"]] += row["many"]
    return kinds


def _kinds(runs: list[int]) -> BatchFunction:
    wanted = pa.array(runs, pa.int64())

    def counted(batches: Batches) -> Batches:
        for rows in batches:
            unknown = pc.and_(pc.is_in(rows["run"], wanted), pc.invert(pc.is_in(rows["f"], KNOWN)))
            kinds = (
                pa.Table.from_batches([rows.filter(unknown)])
                .group_by(["run", "f"])
                .aggregate([([], "count_all")])
            )
            most_frequent = kinds.sort_by([("count_all", "descending")]).slice(0, MOST_KINDS)
            yield from (
                most_frequent.select(["run", "f", "count_all"])
                .rename_columns(KINDS.names)
                .cast(KINDS)
                .to_batches()
            )

    return counted


def any_run_has(numbers: Numbers, kind: str) -> bool:
    """Return whether any run has an operation of this kind."""
    return any(counts[kind] for counts in numbers.values())


def _count(batches: Batches) -> Batches:
    """Yield several rows for each run."""
    for rows in batches:
        runs, at = np.unique(rows["run"].to_numpy(), return_inverse=True)
        outcome, f = rows["outcome"].to_numpy(zero_copy_only=False), rows["f"]
        effective = is_true(pc.is_in(f, EFFECTIVE))
        kinds = {
            "ops": np.ones(len(rows), bool),
            **{name: outcome == code for code, name in enumerate(OUTCOMES)},
            "committed": (outcome == OK) & effective,
            "aborted": (outcome == OUTCOMES.index("fail")) & effective,
            "subscribes": is_true(pc.equal(f, "subscribe")),
            "turns": turns(rows),
            "uncommitted": is_true(pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)),
            "passed_over": ~is_true(pc.is_in(f, KNOWN)),
        }
        counts = (np.bincount(at[matches], minlength=len(runs)) for matches in kinds.values())
        yield pa.RecordBatch.from_arrays([pa.array(runs), *map(pa.array, counts)], ["run", *kinds])


def turns(rows: pa.RecordBatch) -> np.ndarray:
    """Return for each row whether it can change the keys of a process, or saw a rebalance."""
    moved = pc.greater(pc.list_value_length(rows["rebalanced"]), 0)
    return is_true(pc.or_kleene(pc.is_in(rows["f"], ASSIGNS), moved))


def uncommitted(batches: Batches) -> Batches:
    """Yield run and op of the operations that read uncommitted records."""
    for rows in batches:
        reads_uncommitted = pc.equal(rows["isolation"], Isolation.READ_UNCOMMITTED.value)
        yield rows.filter(pc.fill_null(reads_uncommitted, False)).select(["run", "op"])


def lookup(
    table: HistoryTable, form: pa.Schema, key: str, wanted: Set[tuple[int, int]]
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the rows with a wanted run and key, by (run, key). One row is returned if several match."""
    if not wanted:
        return {}
    rows = collect(table, _choose(key, wanted), form, form.names).to_pylist()
    return {(row["run"], row[key]): row for row in rows}


def _choose(key: str, wanted: Set[tuple[int, int]]) -> BatchFunction:
    numbers = pa.array(sorted({number for _, number in wanted}), pa.int64())

    def choose(batches: Batches) -> Batches:
        for rows in batches:
            rows_with_number = rows.filter(pc.is_in(rows[key], numbers))
            matches = [
                pair in wanted
                for pair in zip(
                    rows_with_number["run"].to_pylist(), rows_with_number[key].to_pylist(), strict=True
                )
            ]
            yield rows_with_number.filter(pa.array(matches, pa.bool_()))

    return choose


def is_true(condition: pa.Array) -> np.ndarray:
    """Return the condition as numpy booleans; null is false."""
    return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False))
