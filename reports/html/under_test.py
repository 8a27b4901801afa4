"""What was under test: how topics were written and offsets committed, and what each program printed last."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import join_words, number, plural, printable, redact_text
from harness.model.vocabulary import WARM_UP
from harness.record.table_reader import RunTables
from reports.known_secrets import known_secrets, without_secrets

OFFSETS_WITHIN, OFFSETS_OUTSIDE = "in transactions", "outside any transaction"
MOST_ROWS = 24
MOST_LOGS, MOST_LINES = 24, 12
_MOST_BYTES = 16 << 10
_MOST_TEXT = 300
NOT_PROGRAMS = ("feeder", "final-", "observer")
"""How the names of the logs of Fencepost's own processes begin."""


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


@dataclass(frozen=True)
class ProgramLog:
    """The end of a log."""

    name: str  # the process: `bill-2.0`
    href: str
    lines: list[str]


def program_logs(folder: Path, options: Mapping[str, Any]) -> Iterator[ProgramLog]:
    """Yield the end of the log of each program that printed something, in the order of their names.

    The values of secrets in the environment of this process are left out, too, because programs inherit it.

    Args:
        folder: the run folder
        options: the options of the run, which name files with secrets
    """
    secrets = known_secrets(folder, options, os.environ)
    paths = [
        path
        for path in sorted((folder / "workers").glob("*.log"))
        if not path.name.startswith(NOT_PROGRAMS) and path.is_file() and path.stat().st_size
    ]
    for path in paths[:MOST_LOGS]:
        with suppress(OSError):
            yield ProgramLog(
                printable(path.stem, 60), f"workers/{quote(path.name)}", _last_lines(path, secrets)
            )


def _last_lines(path: Path, secrets: frozenset[str]) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST_BYTES))
        lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    return [
        without_secrets(printable(redact_text(line), _MOST_TEXT), secrets) for line in lines[-MOST_LINES:]
    ]
