"""Replica divergence: replicas hold different bytes where all must hold the same.

Below its own high watermark, and between its own log start and log end, a replica has another batch than
another replica, or none: another checksum, leader epoch, length or marker. A batch that can no longer be read is
none. A replica is judged up to its last batch that is here; if its log goes on beyond that, the run is unknown.

Illegal because what is committed is the same on every replica: after the next failover other records would
be read at these offsets.
Evidence: the headers of the batches of each replica; their checksums cover everything else. Compacted
partitions are not judged: each replica cleans its own.

    broker 1, leader of x: a batch at offset 4, checksum 17
    broker 2: a batch at offset 4, checksum 18                      <- replica-divergence
    high watermark of x: 9

Blind spot: bytes that changed under a checksum that stayed, for payloads are not read; what stands above
the last batch that can be read (a replica that cannot be read up to the high watermark makes a run unknown).
Reference: Kafka's documentation, "Replication"; KIP-101, KIP-279.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, record_place
from checkers.findings.form import Findings
from checkers.findings.lookup import lookup
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.results.example import Example, describe_place
from harness.results.wording import join_words, printable

HOLDS = "one.log_start <= base_offset and last_offset < one.end"
"""Whether a replica must hold the batch."""
SAME = ("crc", "leader_epoch", "last_offset", "count", "marker")
"""What must be the same on all of them."""


def replica_divergence(t: Tables) -> DataFrame:
    """One row for each place at which they do not all hold the same."""
    bounds = [F.expr(f"{end}({column}) as {end}_{column}") for column in SAME for end in ("min", "max")]
    places = (
        _held(t)
        .groupBy("run", "tp", "base_offset")
        .agg(
            *bounds,
            # Of several lengths there are several checksums, and the longest must be on the fewest.
            F.expr("min(size(holders)) as due"),
            F.expr("bit_count(bit_or(shiftleft(1L, cast(array_position(brokers, broker) as int)))) as there"),
        )
    )
    other = " or ".join(f"min_{column} != max_{column}" for column in SAME)
    return finding(
        places.where(f"{other} or there < due"),
        "replica-divergence",
        order=["tp", "base_offset"],
        record=record_place("tp", "base_offset"),
    )


def explain(t: Tables, findings: Mapping[int, list[Findings]]) -> None:
    """Say what each replica holds, and which hold nothing."""
    examples = [(run, example) for run, mine in findings.items() for one in mine for example in one.examples]
    held = "struct(broker, leader, last_offset, crc, leader_epoch, count, producer_id, epoch)"
    places = (
        _held(t)
        .groupBy("run", "tp", "base_offset")
        .agg(
            F.expr(f"array_sort(collect_list({held})) as held"),
            F.expr("min_by(holders, -last_offset) as holders"),
        )
        .selectExpr("*", "transform(holders, one -> one.broker) as brokers")
        .selectExpr("*", "array_sort(array_except(brokers, transform(held, one -> one.broker))) as lacking")
    )
    wanted: set[tuple[int, ...]] = {
        (run, one["record"]["tp"], one["record"]["offset"]) for run, one in examples
    }
    found = lookup(places.drop("holders", "brokers"), ("run", "tp", "base_offset"), wanted)
    for run, example in examples:
        row = found[run, example["record"]["tp"], example["record"]["offset"]]
        example |= {"replicas": row["held"], "lacking": row["lacking"]}


def _held(t: Tables) -> DataFrame:
    """What the replicas that are judged hold; with brokers, of all of them, and holders, those that must hold it."""
    return (
        t.headers.join(broadcast(_judged(t)), on=["run", "tp"], how="inner")
        .selectExpr("*", f"filter(replicas, one -> {HOLDS}) as holders")
        .where("exists(holders, one -> one.broker = broker)")
    )


def _judged(t: Tables) -> DataFrame:
    """run, tp; replicas [broker, log_start, end]: the range in which each must hold what the others hold; brokers."""
    replica = "struct(broker, log_start, least(log_end, high_watermark, coalesce(reached, 0)) as end)"
    judged = t.tps.where("logged and not compacts and followers > 0").select("run", "tp")
    return (
        t.replicas.where("high_watermark is not null")
        .groupBy("run", "tp")
        .agg(F.expr(f"collect_list({replica}) as replicas"))
        .join(broadcast(judged), on=["run", "tp"], how="left_semi")
        .selectExpr("*", "transform(replicas, one -> one.broker) as brokers")
    )


def _sentence(e: Example) -> str:
    held = e.body.get("replicas")
    bodies = [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []
    parts = [
        f"broker {printable(one.get('broker'))} has checksum {printable(one.get('crc'))}"
        f" up to offset {printable(one.get('last_offset'))}"
        for one in bodies
    ]
    lacking = e.body.get("lacking")
    parts += [f"broker {printable(one)} has nothing" for one in lacking] if isinstance(lacking, list) else []
    at = describe_place(e.inner("record"))
    return f"at {at} the replicas differ" + (f": {join_words(parts)}" if parts else "")


WORDING = {
    "replica-divergence": AnomalyWording(
        "place in the log differs from replica to replica",
        "places in the log differ from replica to replica",
        "What is committed is the same on every replica. Here it is not: what is read depends on who leads.",
        _sentence,
    ),
}
