"""Unmarked partition: a transaction was completed, but one of its partitions lacks its marker.

A producer id has written to a partition. The partition has fewer markers of that id than there are completed
transactions of that id that named the partition when they were prepared.

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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record_position
from checkers.findings.wording import AnomalyWording
from checkers.stored.tables import Tables
from harness.results.example import Example
from harness.results.wording import printable


def unmarked_partition(t: Tables) -> DataFrame:
    """Return one row for each producer id and partition."""
    completed = t.states.where("state in ('CompleteCommit', 'CompleteAbort')").selectExpr(
        "run",
        "explode(before.tps) as tp",
        "before.producer_id as producer_id",
        "struct(log_tp, log_offset, epoch, state, transactional_id) as completion",
    )
    written = t.batches.where("not compacted and log_start = 0").selectExpr(
        "run", "tp", "producer_id", "markers", "struct(base_offset, epoch) as batch"
    )
    unmarked = (
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
        unmarked,
        "unmarked-partition",
        order=["tp", "producer_id"],
        absence="true",
        record=record_position("tp", "batch.base_offset"),
        producer_id="producer_id",
        epoch="batch.epoch",
        transactional_id="completion.transactional_id",
        markers="markers",
        completions="completions",
        last_completion="struct(completion.log_tp as tp, completion.log_offset as offset, "
        "completion.epoch as epoch, completion.state as state)",
    )


def _sentence(e: Example) -> str:
    markers, completions = printable(e.rest.get("markers")), printable(e.rest.get("completions"))
    last = e.part("last_completion")
    last_state = f"; the last one is {printable(last.get('state'), 40)}" if last else ""
    where = e.first_record.partition
    return (
        f"{where} has {markers} markers of {e.transactional_id}, but {completions} of its transactions there are "
        f"complete{last_state}"
    )


WORDING = {
    "unmarked-partition": AnomalyWording(
        "partition lacks the marker of a completed transaction",
        "partitions lack the markers of completed transactions",
        "A transaction is complete when each of its partitions has a marker. Here a partition has too few markers: its "
        "records stay open, or share the fate of the next transaction.",
        _sentence,
    ),
}
