"""What was under test, as the broker logs show it: how each topic was written, and how each group committed offsets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import join_words, number, plural, printable
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import RunTables

OFFSETS_WITHIN, OFFSETS_OUTSIDE = "in transactions", "outside any transaction"
MOST_ROWS = 24


@dataclass(frozen=True)
class ObservedFact:
    """One row: what a topic or a group shows of the programs."""

    subject: str  # `topic invoices`, `group billing`
    words: str


def observed(t: RunTables) -> list[ObservedFact]:
    """Return what the logs show, at most `MOST_ROWS` rows. Empty: the run has no logs.

    Raises `UnreadableInput` or `ArrowException` for a damaged table.
    """
    if not t.exists("batches"):
        return []
    return [*_topics(t), *_groups(t)][:MOST_ROWS]


def _topics(t: RunTables) -> Iterator[ObservedFact]:
    """Yield for each topic that the stages write how its records were written."""
    written = _written(t)
    rows = t.table(
        "batches", ("tp", "producer_id", "transactional", "control", "count"), leader=[True], control=[False]
    )
    kinds = pc.if_else(
        rows["transactional"], "txn", pc.if_else(pc.greater_equal(rows["producer_id"], 0), "own", "none")
    )
    counted = pa.table({"tp": rows["tp"], "kind": kinds, "count": rows["count"]})
    by_topic: dict[str, dict[str, int]] = {}
    for row in counted.group_by(["tp", "kind"]).aggregate([("count", "sum")]).to_pylist():
        topic = t.topic(row["tp"])
        if topic in written or (not written and not topic.startswith("__")):
            of_kind = by_topic.setdefault(topic, {})
            of_kind[row["kind"]] = of_kind.get(row["kind"], 0) + row["count_sum"]
    words = {
        "txn": "in transactions",
        "own": "by idempotent producers outside transactions",
        "none": "by producers that are not idempotent",
    }
    for topic, of_kind in sorted(by_topic.items()):
        parts = [f"{number(of_kind[kind])} {text}" for kind, text in words.items() if of_kind.get(kind)]
        yield ObservedFact(f"topic {printable(topic, 80)}", f"records written: {join_words(parts)}")


def _written(t: RunTables) -> set[str]:
    """Return the topics that stages write, as run.toml has them. Empty: they are not known."""
    workload = t.settings.get("workload")
    stages = workload.get("stages") if isinstance(workload, Mapping) else None
    return {
        str(topic)
        for stage in (stages if isinstance(stages, list) else ())
        if isinstance(stage, Mapping) and isinstance(stage.get("writes"), list)
        for topic in stage["writes"]
    }


def _groups(t: RunTables) -> Iterator[ObservedFact]:
    """Yield for each group how it committed offsets, and how often in each partition."""
    if not t.exists("offsets"):
        return
    rows = t.table("offsets", ("group", "tp", "transactional", "committed", "timestamp_ms"))
    rows = rows.filter(rows["committed"].is_valid())
    for group in sorted(filter(None, pc.unique(rows["group"]).to_pylist())):
        if group.startswith(WARM_UP):
            continue
        own = rows.filter(pc.equal(rows["group"], group))
        within = pc.sum(own["transactional"]).as_py() or 0
        parts = [
            f"{number(count)} {text}"
            for count, text in ((within, OFFSETS_WITHIN), (len(own) - within, OFFSETS_OUTSIDE))
            if count
        ]
        words = f"{plural(len(own), 'offset commit')}: {join_words(parts)}"
        yield ObservedFact(f"group {printable(group, 80)}", words + _interval(own))


def _interval(commits: pa.Table) -> str:
    """Return how long after each other the commits of a partition came, in the median. Empty: there are too few."""
    ordered = commits.sort_by([("tp", "ascending"), ("timestamp_ms", "ascending")])
    tp, time_ms = (np.asarray(ordered[name]) for name in ("tp", "timestamp_ms"))
    gaps_ms = np.diff(time_ms)[np.diff(tp) == 0]
    gaps_ms = gaps_ms[gaps_ms > 0]
    if len(gaps_ms) < 3:
        return ""
    return f"; in each partition about every {float(np.median(gaps_ms)) / 1000:.1f} s"
