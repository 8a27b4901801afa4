"""Replica divergence: replicas hold different bytes where all must hold the same.

A replica must hold the same batches as the others, below its own high watermark and between the start and the end of
its own log. In this range it lacks a batch that another replica holds, or holds a batch with another checksum, leader
epoch, length or marker. A batch that cannot be read counts as missing. A replica is checked up to the last batch that
could be read. If its log goes on beyond that, the run is unknown.

Illegal because committed records are the same on every replica. Otherwise, after the next failover, consumers read
other records at these offsets.
Evidence: the headers of the batches of each replica; their checksums cover everything else. Compacted partitions are
not checked, because each replica cleans its own log.

    broker 1, leader of x: a batch at offset 4, checksum 17
    broker 2: a batch at offset 4, checksum 18                      <- replica-divergence
    high watermark of x: 9

Blind spot: bytes that changed while the checksum did not, because payloads are not read; and everything above the last
batch that could be read. A replica that cannot be read up to the high watermark makes a run unknown.
Reference: Kafka's documentation, "Replication"; KIP-101, KIP-279.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import AnomalyWording, Findings, finding, lookup, record_position
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.common.wording import join_words, printable
from harness.results.example import Example, Part

MUST_HOLD = "r.log_start <= base_offset and last_offset < r.end"
"""The replica `r` must hold the batch."""
COMPARED = ("crc", "leader_epoch", "last_offset", "count", "marker")
"""Columns of a batch that must be the same on all replicas."""


def replica_divergence(tables: Tables) -> DataFrame:
    """Return one row for each offset at which the replicas do not hold the same batch."""
    bounds = [F.expr(f"{end}({column}) as {end}_{column}") for column in COMPARED for end in ("min", "max")]
    positions = (
        _batches(tables)
        .groupBy("run", "tp", "base_offset")
        .agg(
            *bounds,
            # Batches of different lengths differ in their checksums. The longest one must be on the fewest replicas.
            F.expr("min(size(holders)) as due"),
            F.expr(
                "bit_count(bit_or(shiftleft(1L, cast(array_position(brokers, broker) as int)))) as present"
            ),
        )
    )
    differs = " or ".join(f"min_{column} != max_{column}" for column in COMPARED)
    return finding(
        positions.where(f"{differs} or present < due"),
        "replica-divergence",
        order=["tp", "base_offset"],
        record=record_position("tp", "base_offset"),
    )


def explain(tables: Tables, findings: Mapping[int, list[Findings]]) -> None:
    """Add to each example what each replica holds, and which replicas hold nothing."""
    examples = [
        (run, example)
        for run, run_findings in findings.items()
        for finding in run_findings
        for example in finding.examples
    ]
    batch = "struct(broker, leader, last_offset, crc, leader_epoch, count, producer_id, epoch)"
    positions = (
        _batches(tables)
        .groupBy("run", "tp", "base_offset")
        .agg(
            F.expr(f"array_sort(collect_list({batch})) as held"),
            F.expr("min_by(holders, -last_offset) as holders"),
        )
        .selectExpr("*", "transform(holders, r -> r.broker) as brokers")
        .selectExpr("*", "array_sort(array_except(brokers, transform(held, r -> r.broker))) as lacking")
    )
    wanted: set[tuple[int, ...]] = {
        (run, example.first_record.facts["tp"], example.first_record.facts["offset"])
        for run, example in examples
    }
    rows = lookup(positions.drop("holders", "brokers"), ("run", "tp", "base_offset"), wanted)
    for run, example in examples:
        at = example.first_record.facts
        row = rows[run, at["tp"], at["offset"]]
        example.facts["replicas"] = [Part("replica", batch) for batch in row["held"]]
        example.facts["lacking"] = row["lacking"]


def _batches(tables: Tables) -> DataFrame:
    """Return the batches of the checked replicas, with `brokers` (all replicas) and `holders` (who must hold it)."""
    return (
        tables.headers.join(broadcast(_replicas(tables)), on=["run", "tp"], how="inner")
        .selectExpr("*", f"filter(replicas, r -> {MUST_HOLD}) as holders")
        .where("exists(holders, r -> r.broker = broker)")
    )


def _replicas(tables: Tables) -> DataFrame:
    """Return run, tp, replicas [broker, log_start, end] and brokers.

    From `log_start` until `end`, a replica must hold what the other replicas hold.
    """
    replica = "struct(broker, log_start, least(log_end, high_watermark, coalesce(reached, 0)) as end)"
    compared = tables.tps.where("logged and not compacts and followers > 0").select("run", "tp")
    return (
        tables.replicas.where("high_watermark is not null")
        .groupBy("run", "tp")
        .agg(F.expr(f"collect_list({replica}) as replicas"))
        .join(broadcast(compared), on=["run", "tp"], how="left_semi")
        .selectExpr("*", "transform(replicas, r -> r.broker) as brokers")
    )


def _sentence(e: Example) -> str:
    parts = [
        f"broker {printable(replica.get('broker'))} has checksum {printable(replica.get('crc'))}"
        f" up to offset {printable(replica.get('last_offset'))}"
        for replica in e.parts()
        if replica.label == "replica"
    ]
    lacking = e.rest.get("lacking")
    parts += (
        [f"broker {printable(broker)} has nothing" for broker in lacking] if isinstance(lacking, list) else []
    )
    at = e.first_record.position
    return f"at {at} the replicas differ" + (f": {join_words(parts)}" if parts else "")


WORDING = {
    "replica-divergence": AnomalyWording(
        "batch differs between replicas",
        "batches differ between replicas",
        "Committed records must be the same on every replica. Here they are not, so what a consumer reads depends on "
        "which replica leads.",
        _sentence,
    ),
}
