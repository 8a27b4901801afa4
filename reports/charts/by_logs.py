"""Throughput, latency and outcomes over time of custom pipelines, from the broker logs.

Transactions are read from the transaction log: from Ongoing to CompleteCommit or CompleteAbort. The latency is the
coordinator's part of a commit, from PrepareCommit to the last marker. A record counts in the second of its time stamp,
if its transaction committed. Records and transactions outside the run are not drawn, and their number is noted.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.model.vocabulary import WARM_UP
from harness.results.wording import plural, printable
from reports.charts.series import BINS, Series, into_buckets
from reports.run_tables import RunTables

COMMITTED, ABORTED, LEFT_OPEN = "committed", "aborted", "left open"
CATEGORIES = (COMMITTED, ABORTED, LEFT_OPEN)
UNNAMED = "all programs"
"""The label for the transactions of all programs together, if no stage names its transactional ids."""
_ENDS = {"CompleteCommit": COMMITTED, "CompleteAbort": ABORTED}
_STATES = ("transactional_id", "log_tp", "log_offset", "state", "start_ms", "update_ms")
_BATCHES = (
    *("tp", "base_offset", "count", "producer_id", "transactional", "control"),
    *("marker", "max_timestamp_ms"),
)


@dataclass(frozen=True)
class StageTopics:
    """The topics and transactional ids of a stage."""

    name: str
    topics: frozenset[str] = frozenset()  # the topics that it writes
    transactional_ids: frozenset[str] = frozenset()  # empty if they are not known


def stages_without_journals(settings: Mapping[str, Any]) -> list[StageTopics]:
    """Return the stages in the settings of a run. Empty if a stage keeps journals, or if the settings are damaged."""
    workload = settings.get("workload")
    stages = workload.get("stages") if isinstance(workload, Mapping) else None
    stage_topics = []
    for stage in stages if isinstance(stages, list) else ():
        if not isinstance(stage, Mapping) or stage.get("journaled") is not False:
            return []
        ids = stage.get("transactional_ids")
        named = ids.values() if isinstance(ids, Mapping) else ()
        topics = stage.get("writes")
        written = topics if isinstance(topics, list) else ()
        stage_topics.append(
            StageTopics(str(stage.get("name")), frozenset(map(str, written)), frozenset(map(str, named)))
        )
    return stage_topics


@dataclass(frozen=True)
class LogClock:
    """Converts the times of brokers to seconds of the run, from the wall clock at its start."""

    wall_ms_at_zero: float
    end_s: float = math.inf

    def second(self, wall_ms: float) -> int | None:
        """Return the second of the run. None: before its start or after its end."""
        second = math.floor((wall_ms - self.wall_ms_at_zero) / 1e3)
        return second if 0 <= second <= self.end_s else None


def read(t: RunTables, stages: Sequence[StageTopics], clock: LogClock, at_least_s: float = 1.0) -> Series:
    """Read the logs of a run into a series. Missing or damaged files are noted in `missing`. `at_least_s` is the
    least length of the run.
    """
    series = Series(end_s=max(1.0, at_least_s), categories=CATEGORIES, by_logs=True)
    written = {topic for stage in stages for topic in stage.topics}
    parts = (
        partial(_add_transactions, series, t, stages, clock),
        partial(_add_records, series, t, written, clock),
    )
    for add in parts:
        try:
            add()
        except (UnreadableInput, TypeError, ValueError, pa.ArrowException) as error:
            # The file is missing or damaged, or its columns have other types.
            series.missing.append(printable(str(error), 300))
    last = max((*series.records, *(at for counts in series.outcomes.values() for at in counts)), default=0)
    series.end_s = max(series.end_s, last + 1.0)
    return into_buckets(series)


def _add_transactions(series: Series, t: RunTables, stages: Sequence[StageTopics], clock: LogClock) -> None:
    """Count each transaction in the second of its end. A transaction that never ended counts in the second of its
    start.
    """
    table = t.table("transactions", _STATES)
    stage_of = {
        transactional_id: stage.name for stage in stages for transactional_id in stage.transactional_ids
    }
    begin_ms: dict[str, float] = {}
    decided_ms: dict[str, float] = {}
    without_begin = 0
    for row in table.sort_by([("log_tp", "ascending"), ("log_offset", "ascending")]).to_pylist():
        transactional_id, state, at_ms = row["transactional_id"], row["state"], row["update_ms"]
        if transactional_id is None or transactional_id.startswith(WARM_UP) or at_ms is None:
            continue
        stage, at = stage_of.get(transactional_id, UNNAMED), clock.second(at_ms)
        if state in _ENDS and transactional_id not in begin_ms:
            without_begin += 1
        elif at is None:
            begin_ms.pop(transactional_id, None)
        elif state in _ENDS:
            series.outcomes[stage, _ENDS[state]][at] += 1
            if state == "CompleteCommit":
                series.committed[at] += 1
                took_ns = max(at_ms - decided_ms.pop(transactional_id, at_ms), 0.5) * 1e6
                series.latency[at][math.floor(math.log2(took_ns) * BINS)] += 1
            del begin_ms[transactional_id]
        elif state == "Ongoing":
            begin_ms.setdefault(transactional_id, row["start_ms"] or at_ms)
        elif state == "PrepareCommit":
            decided_ms[transactional_id] = at_ms
        elif state in ("Empty", "Dead"):
            begin_ms.pop(transactional_id, None)
    for transactional_id, since_ms in begin_ms.items():
        series.outcomes[stage_of.get(transactional_id, UNNAMED), LEFT_OPEN][clock.second(since_ms) or 0] += 1
    if without_begin:
        series.missing.append(
            f"the transaction log has the end of {plural(without_begin, 'transaction')} without the start: "
            "they are not drawn"
        )


def _add_records(series: Series, t: RunTables, topics: set[str], clock: LogClock) -> None:
    """Count the records in topics that stages write, from the leaders' logs."""
    partitions = t.table("partitions", ["tp", "topic"]).to_pylist()
    written = [row["tp"] for row in partitions if row["topic"] in topics]
    if not written:
        return
    table = t.table("batches", _BATCHES, leader=[True], tp=written)
    records: Counter[int | None] = Counter()
    undecided: dict[tuple[int, int], Counter[int | None]] = {}
    for row in table.sort_by([("tp", "ascending"), ("base_offset", "ascending")]).to_pylist():
        _add_batch(records, undecided, row, clock)
    if outside := records.pop(None, 0):
        series.missing.append(
            f"the time stamps of {plural(outside, 'record')} are outside the run: they are not drawn"
        )
    series.records.update({at: count for at, count in records.items() if at is not None})


def _add_batch(
    records: Counter[int | None],
    undecided: dict[tuple[int, int], Counter[int | None]],
    row: Mapping[str, Any],
    clock: LogClock,
) -> None:
    key = (row["tp"], row["producer_id"])
    if row["control"]:
        counts = undecided.pop(key, Counter())
        if row["marker"] == "commit":
            records.update(counts)
    elif row["transactional"]:
        undecided.setdefault(key, Counter())[clock.second(row["max_timestamp_ms"])] += row["count"]
    else:
        records[clock.second(row["max_timestamp_ms"])] += row["count"]
