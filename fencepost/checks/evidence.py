"""The evidence of a stored run, and checks that its tables are those that the run wrote."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.recovery.lag import measure_lag
from checkers.recovery.measure import Recovery, measure_recovery
from fencepost.checks.bounds import require_bounded_table
from harness.clients.requests_sent import APIS
from harness.common.errors import UnreadableInput
from harness.model.error_codes import error_codes
from harness.model.promises import NO_WITNESS
from harness.model.vocabulary import Premise
from harness.record.client_history import file_crc
from harness.record.columns import null
from harness.record.parquet_reader import iterate_parquet, read_parquet
from harness.record.partition_numbers import PartitionIds
from harness.record.protocol_journal import JOURNAL, read_journal
from harness.record.run_tables import PLAN, require_ended
from harness.record.schema import HISTORY, LOG, find_mismatch
from harness.record.table_reader import RunTables
from harness.results.conclusions import ControlRun
from harness.results.lag import Lag
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Verdict
from harness.settings.run_file import StoredPlan

KEYS = frozenset(
    {"run", "op", "n", "tp", "offset", "base_offset", "last_offset", "log_tp", "log_offset", "broker"}
)
"""Columns by which rows are joined. Where their declaration gives no reason for a null, a null is damage."""
LARGE_BYTES = 10 * 1024 * 1024
"""Parquet size, about a million rows, above which Spark starts with its settings for a large history."""


KILLED = Reason(
    ReasonCode.RUN_KILLED,
    "there is no metadata.json: the run was killed before its end, or the file was removed; the run is checked "
    "without it",
)


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


def find_differences(folder: Path, plan: StoredPlan) -> Iterator[str]:
    """Yield each difference between the tables and the files run.toml and metadata.json."""
    history = folder / "history"
    rows = read_parquet(history / "stages.parquet").drop_columns("run").to_pylist()
    stages = {(row.pop("stage"), row.pop("in_topic")): row for row in rows}
    planned = {(stage.name, topic): stage for stage in plan.pipeline.stages for topic in stage.reads}
    if len(rows) != len(stages):
        yield "the table stages has a stage twice"
    if stages.keys() != planned.keys():
        expected, actual = (
            listed(f"{stage} of {topic}" for stage, topic in names) for names in (planned, stages)
        )
        yield f"the table stages has {actual}, and the run had {expected}"
    for name, topic in sorted(stages.keys() & planned.keys()):
        for column, value in stages[name, topic].items():
            if value != (expected_value := getattr(planned[name, topic], column)):
                yield f"the table stages has {value} as {column} of {name}, and the run had {expected_value}"
    journals = read_parquet(history / "journals.parquet", ["journal"])["journal"].to_pylist()
    journal_names = [path.stem for path in (folder / "journals").glob("*.jsonl")]
    # The journal of the faults is in the same folder, and is no part of the tables.
    if missing := sorted(set(journal_names) - set(journals) - {"nemesis"}):
        yield f"the table journals lacks {listed(missing)}"
    promised = {reader.journal for reader in plan.promises.readers}
    if missing_readers := sorted(promised - set(journals)):
        yield f"the run promised readers that left no journal: {listed(missing_readers)}"
    partitions = read_parquet(history / "partitions.parquet", ["tp", "topic", "partition"]).to_pylist()
    tps = {(row["topic"], row["partition"]): row["tp"] for row in partitions}
    numbers = {(topic, number): tp for tp, topic, number in PartitionIds(plan.pipeline.partition_counts)}
    if moved := sorted(name for name, tp in tps.items() if numbers.get(name, tp) != tp):
        yield f"the table partitions has other numbers than the run's plan: {listed(f'{t}/{p}' for t, p in moved)}"
    yield from _implausible(history, plan)
    expected_partitions = set(plan.pipeline.topic_partitions)
    if missing_partitions := sorted(expected_partitions - tps.keys()):
        names_of_partitions = (f"{topic}/{number}" for topic, number in missing_partitions)
        yield f"the table partitions lacks {listed(names_of_partitions)}"
    if plan.promises.replicas and (folder / "log").is_dir():
        logs = Counter(read_parquet(folder / "log" / "replicas.parquet", ["tp"])["tp"].to_pylist())
        for topic in plan.pipeline.topics:
            present = {number: tp for (name, number), tp in tps.items() if name == topic.name}
            partition_ids = {
                number: tps.get((topic.name, number)) for number in range(topic.partitions)
            } | present
            yield from _missing_replicas(topic.name, partition_ids, logs, topic.replication)
        for name in plan.promises.internal_logs:
            partition_ids = {number: tp for (topic, number), tp in tps.items() if topic == name}
            yield from _missing_replicas(
                name, partition_ids, logs, max((logs[tp] for tp in partition_ids.values()), default=0)
            )


def _implausible(history: Path, plan: StoredPlan) -> Iterator[str]:
    """Yield each value in the tables that no run can have written."""
    topics = read_parquet(history / "partitions.parquet", ["topic", "internal"]).to_pylist()
    pipeline_topics = {topic.name for topic in plan.pipeline.topics}
    if hidden := sorted({row["topic"] for row in topics if row["internal"]} & pipeline_topics):
        yield f"the table partitions calls topics of the pipeline internal: {listed(hidden)}"
    backwards = sum(
        pc.sum(pc.less(times["return_ns"], times["call_ns"])).as_py() or 0
        for times in iterate_parquet(history / "ops.parquet", ["call_ns", "return_ns"])
    )
    if backwards:
        yield f"the table ops has {backwards} operations that returned before they were called"


def _missing_replicas(
    topic: str, partition_ids: Mapping[int, int | None], logs: Mapping[int, int], replicas: int
) -> Iterator[str]:
    """Yield a message for the first partition with fewer logs than the topic has replicas.

    Args:
        topic: The topic.
        partition_ids: By partition number, its id in the tables; None: the table partitions lacks it.
        logs: By id, the number of stored logs.
        replicas: The number of replicas of the topic.
    """
    for number, tp in sorted(partition_ids.items()):
        if tp is not None and logs[tp] < replicas:
            had = f"the run had the logs of {replicas} replicas of {topic}/{number}"
            yield f"{had}, and the table replicas has {logs[tp]}"
            return


def listed(names: Iterable[str]) -> str:
    """The first ten names in order, separated by commas; "none" if there are no names."""
    return ", ".join(sorted(names)[:10]) or "none"
