"""Remove records from some input and output partitions, as retention or compaction would.

In a correct run, that must not lead to findings. In such a partition, a wrong sum proves nothing, because inputs may be
missing. Nothing can be proven of a removed record either.
"""

from random import Random

from tests.support.histories import History
from tests.support.stored_tables import RC, RU, Row

PARTITIONS = "abxy"
ABSENCES = frozenset({"poll-skip", "int-poll-skip", "premature-offset", "phantom"})
NEEDS_ALL = ABSENCES | {"aggregate-mismatch"}
"""Anomalies that are not found then, because the records that prove them may be removed."""


def remove_records(history: History, tables: dict[str, list[Row]], rng: Random) -> dict[str, set[int]]:
    """Change the tables as brokers and final readers would have written them.

    Returns:
        The removed offsets, by letter of the partition.
    """
    gone: dict[str, set[int]] = {}
    for letter in PARTITIONS:
        how = rng.choices([None, _begin_late, _compact], [8, 1, 1])[0]
        if how is not None:
            entries = history.entries[letter]
            lost = how(
                tables, history.tp[letter], [at for at, one in enumerate(entries) if _may_go(one)], rng
            )
            _drop(tables, history.tp[letter], lost)
            if lost:
                gone[letter] = lost
    return gone


def _may_go(entry: Row) -> bool:
    return not entry.get("sentinel")


def _begin_late(tables: dict[str, list[Row]], tp: int, offsets: list[int], rng: Random) -> set[int]:
    """Choose all offsets below a random one, as retention does."""
    start = rng.choice([*offsets, offsets[-1] + 1]) if offsets else 0
    for row in tables["replicas"]:
        if row["tp"] == tp:
            row["log_start"] = start
    for row in tables["ends"]:
        if row["tp"] == tp:
            row["first"] = start
    return {at for at in offsets if at < start}


def _compact(tables: dict[str, list[Row]], tp: int, offsets: list[int], rng: Random) -> set[int]:
    """Choose random offsets that are not markers, as compaction does."""
    for row in tables["partitions"]:
        if row["tp"] == tp:
            row["compacted"] = True
    markers = {row["base_offset"] for row in tables["batches"] if row["tp"] == tp and row["control"]}
    return {at for at in offsets if at not in markers and rng.random() < 0.5}


def _drop(tables: dict[str, list[Row]], tp: int, lost: set[int]) -> None:
    """Remove these offsets from the logs and from the reads of the final readers."""

    def stays(row: Row, offset: str) -> bool:
        return row["tp"] != tp or row[offset] not in lost

    final = [row for row in tables["polls"] if row["role"] == "final" and not stays(row, "offset")]
    records = [row for row in tables["records"] if not stays(row, "offset")]
    for row in tables["ends"]:
        if row["tp"] == tp:
            row["read"] -= len({RC: final, RU: records}[row["isolation"]])
    tables["polls"] = [row for row in tables["polls"] if row["role"] != "final" or stays(row, "offset")]
    tables["records"] = [row for row in tables["records"] if stays(row, "offset")]
    tables["batches"] = [row for row in tables["batches"] if stays(row, "base_offset")]
