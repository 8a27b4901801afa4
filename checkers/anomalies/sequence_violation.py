"""Sequence violation: the batches of a producer do not join.

In an uncompacted partition a batch does not begin with the sequence number that follows the last one of
the batch below it of the same producer id and epoch: some are missing between them, or stand there twice.
The number after 2147483647 is 0. A new epoch may begin anywhere, so its first batch is not judged;
neither is the first one of the log, nor what a broker writes in a producer's name: markers, and offset
commits, each of which has the number 0.

Illegal because the numbers are what makes a producer idempotent: a broker accepts only the next one.
Evidence: the headers of the batches in the leader's log.

    log of x: producer 7, epoch 2, sequences 0 to 4
    log of x: producer 7, epoch 2, sequences 4 to 6       <- sequence-violation: 5 was due

Blind spot: what is missing where an epoch begins or ends, and at the end of the log.
Reference: KIP-98, "idempotent producer guarantees".
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding
from checkers.stored.tables import Tables

NUMBERS = 2**31
"""How many sequence numbers there are."""


def sequence_violation(t: Tables) -> DataFrame:
    """One row for each batch that does not join."""
    many = F.col("batch_before.last_offset") - F.col("batch_before.base_offset") + 1
    found = (
        t.batches.where("not internal and not compacted and base_sequence >= 0")
        .where("batch_before.epoch = epoch")
        .withColumn("due", F.pmod(F.col("batch_before.base_sequence").cast("bigint") + many, F.lit(NUMBERS)))
        .where("base_sequence != due")
    )
    return finding(
        found,
        "sequence-violation",
        order=["tp", "base_offset"],
        record=F.struct("tp", F.col("base_offset").alias("offset")),
        record_before=F.struct(F.col("tp").alias("tp"), F.col("batch_before.last_offset").alias("offset")),
        producer_id=F.col("producer_id"),
        epoch=F.col("epoch"),
        sequence=F.col("base_sequence"),
        sequence_due=F.col("due"),
    )
