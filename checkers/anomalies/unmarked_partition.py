"""Unmarked partition: a transaction was completed, and one of its partitions has no marker of it.

In a partition into which a producer id has written, there are fewer markers of that id than completed
transactions of that id that had named the partition when they were prepared.

Illegal because Complete means that every partition has its marker. Without it the records stay open, or
share the fate of the producer's next transaction, whatever that is.
Evidence: the whole transaction log, and the leader's log of the partition, uncompacted and from its first
offset. Markers are counted against completions because a coordinator that moves may write one again: more
of them than transactions say nothing, fewer of them do.

    transaction log: id Ongoing [x, y], PrepareCommit [x, y], CompleteCommit
    log of x: record of producer 7 at offset 4, its marker at offset 5
    log of y: record of producer 7 at offset 9, no marker          <- unmarked-partition

Blind spot: a repeated marker of the same producer in that partition makes up for a missing one.
Reference: none is known; seen on Kafka 4.3.1, where a coordinator passes over a partition that has no
leader.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record_place
from checkers.findings.wording import AnomalyWording
from checkers.stored.tables import Tables
from harness.results.example import Example, describe_place
from harness.results.wording import printable


def unmarked_partition(t: Tables) -> DataFrame:
    """One row for each producer id and partition."""
    completed = t.states.where("state in ('CompleteCommit', 'CompleteAbort')").selectExpr(
        "run",
        "explode(before.tps) as tp",
        "before.producer_id as producer_id",
        "struct(log_tp, log_offset, epoch, state, transactional_id) as completion",
    )
    written = t.batches.where("not compacted and log_start = 0").selectExpr(
        "run", "tp", "producer_id", "markers", "struct(base_offset, epoch) as batch"
    )
    found = (
        completed.unionByName(written, allowMissingColumns=True)
        .groupBy("run", "tp", "producer_id")
        .agg(
            F.expr("count(completion) as completions"),
            F.expr("max(completion) as completion"),
            F.expr("max(markers) as markers"),
            F.expr("max(batch) as batch"),
        )
        .where("markers < completions")
    )
    return finding(
        found,
        "unmarked-partition",
        order=["tp", "producer_id"],
        absence="true",
        record=record_place("tp", "batch.base_offset"),
        producer_id="producer_id",
        epoch="batch.epoch",
        transactional_id="completion.transactional_id",
        markers="markers",
        completions="completions",
        last_completion="struct(completion.log_tp as tp, completion.log_offset as offset, "
        "completion.epoch as epoch, completion.state as state)",
    )


def _sentence(e: Example) -> str:
    markers, due = printable(e.rest.get("markers")), printable(e.rest.get("completions"))
    last = e.body.get("last_completion")
    said = f"; the last one says {printable(last.get('state'), 40)}" if isinstance(last, Mapping) else ""
    where = describe_place({key: value for key, value in e.inner("record").items() if key != "offset"})
    return (
        f"{where} has {markers} markers of {e.transactional_id}, and {due} of its transactions there are "
        f"complete{said}"
    )


WORDING = {
    "unmarked-partition": AnomalyWording(
        "partition lacks the marker of a completed transaction",
        "partitions lack the markers of completed transactions",
        "A transaction is complete when each of its partitions has a marker. Here one has too few: its "
        "records stay open, or share the fate of the next transaction.",
        _sentence,
    ),
}
