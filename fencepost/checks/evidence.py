"""The evidence of a stored run, and the errors of evidence that cannot be read at all.

A file of a few kilobytes can claim 100 million rows, partitions or offsets. Each bound is far above what a run can
write. A run that exceeds one is refused as unreadable, before it fills the memory, and the other histories of the call
are still checked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.recovery.lag import measure_lag
from checkers.recovery.measure import Recovery, measure_recovery
from harness.common.errors import UnreadableInput
from harness.model.kafka_protocol import APIS, error_codes
from harness.model.promises import NO_WITNESS
from harness.model.vocabulary import Premise
from harness.record.client_history import file_crc
from harness.record.parquet import iterate_parquet
from harness.record.protocol_journal import JOURNAL, read_journal
from harness.record.run_tables import PLAN, require_ended
from harness.record.schema import HISTORY, LOG, find_mismatch, null
from harness.record.table_reader import RunTables
from harness.results.conclusions import ControlRun
from harness.results.recovery import Lag
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Verdict
from harness.settings.run_file import StoredPlan

KEYS = frozenset(
    {"run", "op", "n", "tp", "offset", "base_offset", "last_offset", "log_tp", "log_offset", "broker"}
)
"""Columns by which rows are joined. Where their declaration gives no reason for a null, a null is damage."""
LARGE_BYTES = 10 * 1024 * 1024
"""Parquet size, about a million rows, above which Spark starts with its settings for a large history."""

MOST_ROWS = 500_000_000
"""Rows of a table. A run of a day at 5,000 inputs a second writes fewer."""
ROWS_PER_BYTE = 64
"""Rows of a table for each byte of its file. Each row has a number that the row before does not have."""
FREE_ROWS = 1_000_000
"""A table with fewer rows than this may have any size."""
MOST_ROWS_HELD = 1_500_000
"""Rows of a table that is held in memory as a whole: a row for each partition and each of seven brokers or readers."""
HELD = frozenset({"partitions", "stages", "journals", "ends", "replicas"})
MOST_GROUP_BYTES = 1 << 30
"""Uncompressed bytes of a row group. A run writes groups of 65,536 rows."""
VALUES_PER_ROW = 10_000
"""Values of a list in a row group, for each of its rows. The longest list has the inputs of an output: `txn-size`."""
MOST_SPAN = 1 << 22
"""Offsets of a batch or a claim. A record has seven bytes or more, so a batch of Kafka's default size, 1 MiB, has at
most 150,000 records; a claim has the inputs of one operation, `txn-size`."""
SPANS_PER_ROW = 1000
FREE_SPANS = 10_000_000
"""All batches together may have this many offsets, and `SPANS_PER_ROW` more for each row of the run's tables."""
SPANS: Mapping[str, tuple[str, str, str]] = {
    "history/claims": ("first", "next", "a claim"),
    "log/batches": ("base_offset", "last_offset", "a batch"),
}
"""By table, the two columns that are the ends of a range of offsets, which Spark makes one row each of."""


def require_evidence(folder: Path) -> None:
    """Raise `UnreadableInput` if a run has a verdict, but its evidence was removed."""
    if (folder / "verdict.json").is_file() and not any(
        (folder / name).is_dir() for name in ("journals", "history")
    ):
        raise UnreadableInput(
            f"{folder} was checked, and its evidence was removed later, for instance by `fencepost suite "
            f"--keep-evidence bad`: read its report.html, or run it again by `fencepost replay {folder}`"
        )


def require_tables(folder: Path) -> None:
    """Raise `UnreadableInput` if a run has no tables."""
    if not (folder / "history" / "ops.parquet").is_file():
        require_evidence(folder)
        require_ended(folder)
        raise UnreadableInput(
            f"{folder} has no tables yet: run `fencepost check {folder}` first, which makes them"
        )


def wall_ms_at_zero(folder: Path) -> float:
    """Return the wall-clock time in ms at which a run began. Raises `UnreadableInput` if the plan does not have it."""
    zero_ms = StoredPlan.load(folder / PLAN).run.get("wall_ms_at_zero")
    if not isinstance(zero_ms, int | float):
        raise UnreadableInput(
            f"{folder / PLAN} does not say when the run began: [run] wall_ms_at_zero is missing"
        )
    return zero_ms


@dataclass(frozen=True)
class Evidence:
    """The opened evidence of one run."""

    history: str  # the path as the user wrote it
    folder: Path
    plan: StoredPlan
    run_metadata: RunMetadata | None  # None: the run was killed before its end
    differences: tuple[str, ...]  # what the tables lack, compared with run.toml and metadata.json
    blind: bool = False  # check the run as if the pipeline had kept no journals

    @property
    def run(self) -> int:
        """The number of the run. Every row of its tables has it."""
        return int(self.plan.run["id"])

    @property
    def control(self) -> ControlRun | None:
        """The verdict of the same run without faults. None: there was none, or its verdict is gone."""
        path = self.run_metadata.control if self.run_metadata else None
        if path is None:
            return None
        try:
            verdict = Verdict.load(self.folder / path / "verdict.json")
        except UnreadableInput:
            return None
        found = {name: each.count for name, each in verdict.anomalies.items() if not each.allowed}
        return ControlRun(path, verdict.valid, verdict.summary, found)

    @property
    def had_log(self) -> bool:
        """True if the run read the broker logs, according to its plan or its metadata."""
        if self.run_metadata is None:
            return False
        return self.plan.promises.witness != NO_WITNESS or not self.run_metadata.rows.keys().isdisjoint(LOG)

    @property
    def broken_premises(self) -> frozenset[Premise]:
        """The premises that the faults or the cluster break. Checks that need one of them are left out.

        Raises ValueError for an unknown premise.
        """
        promises = self.plan.promises
        several_clocks = () if promises.one_clock else (Premise.ONE_CLOCK,)
        return frozenset({*map(Premise, promises.broken_premises), *several_clocks})

    @cached_property
    def api_errors(self) -> Mapping[str, Mapping[str, int]]:
        """By API and error, how many responses with it clients got through the protocol proxy. Raises `OSError`.

        It is empty if the journal has changed. A name that Kafka does not have is not counted.
        """
        if self.journal_change:
            return {}
        errors = read_journal(self.folder / JOURNAL).api_errors
        return {
            api: known
            for api, counts in errors.items()
            if api in APIS and (known := {name: n for name, n in counts.items() if name in error_codes()})
        }

    @cached_property
    def journal_change(self) -> str:
        """How the journal of the protocol proxy differs from the one that the run wrote. Empty: it does not differ."""
        path = self.folder / JOURNAL
        crc = self.run_metadata.protocol_crc if self.run_metadata else None
        if crc is None:
            return ""
        if not path.is_file():
            return f"{JOURNAL} is missing"
        return "" if file_crc(path) == crc else f"{JOURNAL} is not as the run wrote it"

    @cached_property
    def lag(self) -> Lag:
        """The lag of the groups: which log entries follow their committed offsets."""
        return measure_lag(RunTables(self.folder))

    @cached_property
    def recovery(self) -> Recovery:
        """How the pipeline recovered from the faults."""
        plan = self.plan
        return measure_recovery(self.folder, plan.pipeline, plan.promises, plan.run, self.run_metadata)

    @property
    def size_bytes(self) -> int:
        """The size of the tables."""
        return size_bytes(self.folder)


def size_bytes(folder: Path) -> int:
    """The size of a run's tables. 0 if there are none yet, or if the folder cannot be read."""
    try:
        return sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    except OSError:
        return 0


def require_bounded_table(path: Path, metadata: pq.FileMetaData) -> None:
    """Raise `UnreadableInput` if the metadata of a table show that reading it would need too much memory."""
    rows = metadata.num_rows
    most = MOST_ROWS_HELD if path.stem in HELD else MOST_ROWS
    if rows > most or (rows > FREE_ROWS and rows > ROWS_PER_BYTE * path.stat().st_size):
        raise UnreadableInput(
            f"{path} cannot be read: it has {rows:,} rows in {path.stat().st_size:,} bytes, which no run writes"
        )
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.total_byte_size > MOST_GROUP_BYTES:
            raise UnreadableInput(
                f"{path} cannot be read: a part of it has {group.total_byte_size:,} bytes without compression, and at "
                f"most {MOST_GROUP_BYTES:,} are read"
            )
        values = max((group.column(at).num_values for at in range(group.num_columns)), default=0)
        if values > VALUES_PER_ROW * max(group.num_rows, 1):
            raise UnreadableInput(
                f"{path} cannot be read: its lists have {values:,} values in {group.num_rows:,} rows, which no "
                "run writes"
            )


def require_bounded_ranges(folder: Path) -> None:
    """Raise `UnreadableInput` if a batch or a claim has more offsets than one can have, or all have too many."""
    rows = sum(pq.read_metadata(path).num_rows for path in folder.glob("*/*.parquet"))
    most_in_all = FREE_SPANS + SPANS_PER_ROW * rows
    for table, (first, last, name) in SPANS.items():
        path, in_all = folder / f"{table}.parquet", 0
        for part in iterate_parquet(path, [first, last]) if path.is_file() else ():
            for low, high in _widest(part, first, last):
                raise UnreadableInput(
                    f"{path} cannot be read: {name} has the offsets {low:,} to {high:,}, and at most {MOST_SPAN:,} "
                    "offsets can be in one"
                )
            in_all += pc.sum(pc.abs(pc.subtract(part[last], part[first]))).as_py() or 0
        if in_all > most_in_all:
            raise UnreadableInput(
                f"{path} cannot be read: its rows have {in_all:,} offsets, and at most {most_in_all:,} are expected "
                f"in a run with {rows:,} rows"
            )


def _widest(part: pa.Table, first: str, last: str) -> Iterator[tuple[int, int]]:
    """Yield the ends of the first range that is too long, if there is one. An end may be any integer of 64 bits."""
    low, high = (pc.cast(part[column], pa.float64(), safe=False) for column in (first, last))
    at = pc.index(pc.greater(pc.abs(pc.subtract(high, low)), float(MOST_SPAN)), True).as_py()
    if at >= 0:
        yield part[first][at].as_py(), part[last][at].as_py()


def require_table(path: Path, run: int, rows: Mapping[str, int]) -> None:
    """Raise `UnreadableInput` unless the table exists, is complete, has its columns, and belongs to this run."""
    table = path.stem
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except (OSError, ValueError) as error:
        reason = "it is missing" if not path.exists() else str(error).splitlines()[0]
        raise UnreadableInput(f"{path} cannot be read: {reason}") from error
    if find_mismatch(table, schema) is not None:
        raise UnreadableInput(f"{path} is not the table {table}: its columns differ")
    require_bounded_table(path, metadata)
    if rows.get(table, metadata.num_rows) != metadata.num_rows:
        raise UnreadableInput(f"{path} has {metadata.num_rows} rows, and the run wrote {rows[table]}")
    for name in KEYS.intersection(schema.names):
        if not null((HISTORY | LOG)[table].field(name)) and _has_nulls(metadata, name):
            raise UnreadableInput(f"{path} is damaged: column {name} has nulls, and no run writes them")
    column = schema.get_field_index("run")
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max and not statistics.min == statistics.max == run:
            raise UnreadableInput(f"{path} has rows of run {statistics.min}, and this is run {run}")


def _has_nulls(metadata: pq.FileMetaData, name: str) -> bool:
    """Return whether a column has nulls, by the statistics of the file. Lists have none of their own."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if (
                column.path_in_schema == name
                and column.statistics is not None
                and column.statistics.null_count
            ):
                return True
    return False
