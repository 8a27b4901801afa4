"""What a stored run left behind, and whether its tables are those that it wrote."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.common.errors import UnreadableInput
from harness.model.promises import NO_WITNESS
from harness.model.vocabulary import Premise
from harness.record.parquet_reader import read_parquet
from harness.record.schema import LOG, find_mismatch
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata
from harness.settings.run_file import StoredPlan

LARGE_BYTES = 10 * 1024 * 1024
"""Of Parquet, about a million rows, above which Spark is started for a large history."""


KILLED = Reason(
    ReasonCode.RUN_KILLED,
    "there is no metadata.json: the run was killed before its end, or the file is gone; it is judged from what "
    "else is there",
)


def require_evidence(folder: Path) -> None:
    """Raise `UnreadableInput` where a run was judged, and nothing is left that it was judged by."""
    if (folder / "verdict.json").is_file() and not any(
        (folder / one).is_dir() for one in ("journals", "history")
    ):
        raise UnreadableInput(
            f"{folder} was judged, and its evidence has been removed since, for instance by `fencepost suite "
            f"--keep-evidence bad`: read its report.html, or run it again by `fencepost replay {folder}`"
        )


@dataclass(frozen=True)
class Evidence:
    """One run that can be judged."""

    history: str  # the path as it was given
    folder: Path
    plan: StoredPlan
    facts: RunMetadata | None  # None: the run was killed before its end
    incomplete: tuple[str, ...]  # what the tables lack of what the run's own files say
    blind: bool = False  # to be judged as if the pipeline had kept no journals

    @property
    def run(self) -> int:
        """Its number, which every row of its tables bears."""
        return int(self.plan.run["id"])

    @property
    def had_log(self) -> bool:
        """Whether the brokers' logs were read, as the run had promised, or as it says."""
        if self.facts is None:
            return False
        return self.plan.promises.witness != NO_WITNESS or not self.facts.rows.keys().isdisjoint(LOG)

    @property
    def broken_premises(self) -> frozenset[Premise]:
        """What its faults break of what checks rest on, or where it ran; raises ValueError for what is none."""
        promised = self.plan.promises
        apart = () if promised.one_clock else (Premise.ONE_CLOCK,)
        return frozenset({*map(Premise, promised.broken_premises), *apart})

    @property
    def size_bytes(self) -> int:
        """Of its tables."""
        return size_bytes(self.folder)


def size_bytes(folder: Path) -> int:
    """Of a run's tables; 0 where there are none yet, or the folder cannot be read."""
    try:
        return sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    except OSError:
        return 0


def require_table(path: Path, run: int, rows: Mapping[str, int]) -> None:
    """A table must be there, whole, of its form, and of this run."""
    table = path.stem
    try:
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
    except (OSError, ValueError) as error:
        reason = "it is missing" if not path.exists() else str(error).splitlines()[0]
        raise UnreadableInput(f"{path} cannot be read: {reason}") from error
    if find_mismatch(table, schema) is not None:
        raise UnreadableInput(f"{path} is not the table that it should be: its columns differ")
    if rows.get(table, found.num_rows) != found.num_rows:
        raise UnreadableInput(f"{path} has {found.num_rows} rows, and the run wrote {rows[table]}")
    column = schema.get_field_index("run")
    for group in range(found.num_row_groups):
        told = found.row_group(group).column(column).statistics
        if told is not None and told.has_min_max and not told.min == told.max == run:
            raise UnreadableInput(f"{path} has rows of run {told.min}, and this is run {run}")


def contradictions(folder: Path, plan: StoredPlan) -> Iterator[str]:
    """What the tables lack of what the run's own files say."""
    history = folder / "history"
    rows = read_parquet(history / "stages.parquet").drop_columns("run").to_pylist()
    stages = {(row.pop("stage"), row.pop("in_topic")): row for row in rows}
    planned = {(stage.name, topic): stage for stage in plan.pipeline.stages for topic in stage.reads}
    if len(rows) != len(stages):
        yield "the table stages has a stage twice"
    if stages.keys() != planned.keys():
        had, held = (listed(f"{stage} of {topic}" for stage, topic in names) for names in (planned, stages))
        yield f"the table stages has {held}, and the run had {had}"
    for name, topic in sorted(stages.keys() & planned.keys()):
        for what, told in stages[name, topic].items():
            if told != (was := getattr(planned[name, topic], what)):
                yield f"the table stages has {told} as {what} of {name}, and the run had {was}"
    told = read_parquet(history / "journals.parquet", ["journal"])["journal"].to_pylist()
    written = [path.stem for path in (folder / "journals").glob("*.jsonl")]
    # What was done to the cluster stands beside them, and is no witness.
    if missing := sorted(set(written) - set(told) - {"nemesis"}):
        yield f"the table journals lacks {listed(missing)}"
    promised = {reader.journal for reader in plan.promises.readers}
    if blind := sorted(promised - set(told)):
        yield f"the run promised readers that left no journal: {listed(blind)}"
    places = read_parquet(history / "partitions.parquet", ["tp", "topic", "partition"]).to_pylist()
    here = {(place["topic"], place["partition"]): place["tp"] for place in places}
    yield from _implausible(history, plan)
    wanted = set(plan.pipeline.places)
    if gone := sorted(wanted - here.keys()):
        yield f"the table partitions lacks {listed(f'{topic}/{number}' for topic, number in gone)}"
    if plan.promises.replicas and (folder / "log").is_dir():
        logs = Counter(read_parquet(folder / "log" / "replicas.parquet", ["tp"])["tp"].to_pylist())
        for topic in plan.pipeline.topics:
            named = {number: here.get((topic.name, number)) for number in range(topic.partitions)}
            yield from _replicas_lacking(topic.name, named, logs, topic.replication)
        for name in plan.promises.internal_logs:
            named = {number: tp for (topic, number), tp in here.items() if topic == name}
            yield from _replicas_lacking(
                name, named, logs, max((logs[tp] for tp in named.values()), default=0)
            )


def _implausible(history: Path, plan: StoredPlan) -> Iterator[str]:
    """What no run can have left in its tables."""
    marked = read_parquet(history / "partitions.parquet", ["topic", "internal"]).to_pylist()
    ours = {topic.name for topic in plan.pipeline.topics}
    if hidden := sorted({row["topic"] for row in marked if row["internal"]} & ours):
        yield f"the table partitions calls topics of the pipeline internal: {listed(hidden)}"
    times = read_parquet(history / "ops.parquet", ["call_ns", "return_ns"])
    if backwards := pc.sum(pc.less(times["return_ns"], times["call_ns"])).as_py():
        yield f"the table ops has {backwards} operations that returned before they were called"


def _replicas_lacking(
    topic: str, named: Mapping[int, int | None], logs: Mapping[int, int], replicas: int
) -> Iterator[str]:
    """The first partition of a topic that has fewer logs than the topic has replicas. `named`: its partitions."""
    for number, tp in sorted(named.items()):
        if tp is not None and logs[tp] < replicas:
            had = f"the run had the logs of {replicas} replicas of {topic}/{number}"
            yield f"{had}, and the table replicas has {logs[tp]}"
            return


def listed(names: Iterable[str]) -> str:
    """`a, b, c`, or that there is none."""
    return ", ".join(sorted(names)[:10]) or "none"
