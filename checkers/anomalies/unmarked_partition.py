"""Unmarked partition: a transaction was completed, but one of its partitions lacks its marker.

A producer id has written to a partition. The partition has fewer markers of that id than there are completed
transactions of that id that named the partition when they were prepared.

The transaction without a marker is found by time: a marker is written after its transaction was prepared, and before
the next transaction of the producer is prepared. If the times contradict this, the finding names the partition only.

Illegal because Complete means that every partition has its marker. Without the marker, the records stay open, or share
the fate of the producer's next transaction.
Evidence: the whole transaction log, and the leader's log of the partition, uncompacted and from its first offset. The
number of markers is compared with the number of completions, because a coordinator that moves may write a marker again.
So more markers than transactions prove nothing, but fewer do.

    transaction log: id Ongoing [x, y], PrepareCommit [x, y], CompleteCommit
    log of x: record of producer 7 at offset 4, its marker at offset 5
    log of y: record of producer 7 at offset 9, no marker          <- unmarked-partition

Blind spot: a repeated marker of the same producer in that partition hides a missing one.
Reference: KAFKA-20734; seen on Kafka 4.3.1 and 4.4.0, where a coordinator skips a partition that has no leader.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import AnomalyWording, Findings, finding, wanted_keys
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.results.example import Example, Part, Record

Row = Mapping[str, Any]
LOG = ("run", "tp", "producer_id")
"""A producer in a partition."""


def unmarked_partition(tables: Tables) -> DataFrame:
    """Return one row for each producer id and partition."""
    written = tables.batches.where("not compacted and log_start = 0").select(*LOG, "markers")
    unmarked = (
        _completed(tables)
        .unionByName(written, allowMissingColumns=True)
        .groupBy(*LOG)
        .agg(
            F.expr("count(transactional_id) as completions"),
            F.expr("max(transactional_id) as transactional_id"),
            F.expr("max(markers) as markers"),
        )
        .where("markers < completions")
    )
    return finding(
        unmarked,
        "unmarked-partition",
        order=["tp", "producer_id"],
        absence="true",
        place="struct(tp as tp)",
        producer_id="producer_id",
        transactional_id="transactional_id",
        markers="markers",
        completions="completions",
    )


def _completed(tables: Tables) -> DataFrame:
    """Return one row for each completed transaction and each of its partitions."""
    return tables.states.where("state in ('CompleteCommit', 'CompleteAbort')").selectExpr(
        *("run", "explode(before.tps) as tp", "before.producer_id as producer_id", "transactional_id"),
        *("log_tp", "log_offset", "epoch", "state", "before.update_ms as prepared_ms"),
    )


def explain(tables: Tables, findings: Mapping[int, list[Findings]]) -> None:
    """Add to each example the first transaction without a marker, and its first record in the partition."""
    examples = {
        (run, example.facts["place"].facts["tp"], example.facts["producer_id"]): example
        for run, run_findings in findings.items()
        for finding in run_findings
        for example in finding.examples
    }
    wanted = broadcast(wanted_keys(tables.states.sparkSession, LOG, set(examples)))
    entries = tables.headers.where("leader").select(
        *LOG, "base_offset", "marker", "epoch", "max_timestamp_ms"
    )
    transactions = _collect(_completed(tables).join(wanted, on=list(LOG)), "log_offset")
    entries_by_log = _collect(entries.join(wanted, on=list(LOG)), "base_offset")
    for log, example in examples.items():
        entries_of_log = entries_by_log[log]
        for row in _without_marker(transactions[log], entries_of_log)[:1]:
            place = {"tp": row["log_tp"], "offset": row["log_offset"]}
            record = _first_record(row, entries_of_log)
            found = {} if record is None else {"record": Record("record", {"tp": log[1], "offset": record})}
            completion = Part("completion", place | {name: row[name] for name in ("epoch", "state")})
            example.facts = {**found, **example.facts, "completion": completion}


def _collect(rows: DataFrame, order: str) -> Mapping[tuple[int, ...], Sequence[Row]]:
    """Return the rows by `LOG`, in the order of a column."""
    by_log: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows.toArrow().to_pylist(), key=lambda row: row[order]):
        by_log[tuple(row[key] for key in LOG)].append(row)
    return by_log


def _without_marker(transactions: Sequence[Row], entries: Sequence[Row]) -> list[Row]:
    """Return the transactions without a marker, in order. Empty: the times do not show which they are.

    Each marker is given to the last transaction that was prepared before it. The times are wrong if it is the marker
    of another decision, or if the transaction has one already. A marker that repeats the entry before it is left out.
    """
    prepared_ms = [row["prepared_ms"] for row in transactions]
    if prepared_ms != sorted(prepared_ms):
        return []
    marked: set[int] = set()
    before: Row = {}
    for entry in entries:
        repeats = all(entry[name] == before.get(name) for name in ("marker", "epoch"))
        if entry["marker"] is not None and not repeats:
            at = bisect_right(prepared_ms, entry["max_timestamp_ms"]) - 1
            if (
                at < 0
                or at in marked
                or transactions[at]["state"] != f"Complete{entry['marker'].capitalize()}"
            ):
                return []
            marked.add(at)
        before = entry
    return [row for at, row in enumerate(transactions) if at not in marked]


def _first_record(transaction: Row, entries: Sequence[Row]) -> int | None:
    """Return the offset of the first record of a transaction without a marker. None: it is not known.

    It is above the markers of earlier transactions, and was made before the transaction was prepared.
    """
    first = None
    for entry in entries:
        if entry["max_timestamp_ms"] > transaction["prepared_ms"]:
            break
        if entry["marker"] is not None:
            first = None
        elif first is None:
            first = entry["base_offset"]
    return first


def _sentence(e: Example) -> str:
    place, completion, record = (e.part(name) for name in ("place", "completion", "record"))
    where = (place or e.first_record).partition
    if completion is None:
        markers, completions = printable(e.rest.get("markers")), printable(e.rest.get("completions"))
        counts = f"fewer markers ({markers}) than complete transactions ({completions})"
        return f"{where} has {counts} of {e.transactional_id}"
    words = (
        f"a transaction of {e.transactional_id} is complete ({printable(completion.get('state'), 40)} at "
        f"{completion.position}), but {where} has no marker of it"
    )
    if record is None:
        return words
    later = "" if record.get("marker_offset") is None else ", which is that of a later transaction"
    return f"{words}: {record.words} is {record.fate}{later}"


WORDING = {
    "unmarked-partition": AnomalyWording(
        "partition lacks the marker of a completed transaction",
        "partitions lack the markers of completed transactions",
        "A transaction is complete when each of its partitions has a marker. Here a partition has too few markers: its "
        "records stay open, or share the fate of the next transaction.",
        _sentence,
    ),
}
