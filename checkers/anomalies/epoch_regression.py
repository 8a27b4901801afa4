"""Epoch regression: the epoch of a producer id went down.

In one partition a batch, or the marker just above it, has a lower epoch than what its producer id had
written just below. Or, in the transaction log, a transactional id went on with a lower epoch of the same
producer id.

Illegal because a higher epoch fences the lower one: whoever still has it must not write any more.
Evidence: the order of batches and markers in the leader's log, and that of the states in the transaction
log. There a state counts only if the coordinator went on from it: one that its
replicas did not confirm in time stands in the log too, and may raise the epoch for nothing.

    log of x: record of producer 7, epoch 3, at offset 4
    log of x: record of producer 7, epoch 2, at offset 5         <- epoch-regression

Blind spot: two markers one upon the other, with no record between them.
Reference: KIP-98, "fencing zombies"; KIP-360; KIP-890.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, state
from checkers.stored.producers import COMPLETE
from checkers.stored.tables import Tables

NAME = "epoch-regression"


def epoch_regression(t: Tables) -> DataFrame:
    """One row for each step down."""
    return _of_batches(t).unionByName(_of_markers(t)).unionByName(_of_states(t))


def _of_batches(t: Tables) -> DataFrame:
    found = t.batches.where("epoch < entry_before.epoch")
    return finding(
        found,
        NAME,
        order=["tp", "base_offset"],
        record=_entry(F.col("base_offset"), F.col("epoch")),
        record_before=_entry(F.col("entry_before.offset"), F.col("entry_before.epoch")),
        marker_before=F.col("entry_before.marker"),
        producer_id=F.col("producer_id"),
        epoch=F.col("epoch"),
        epoch_before=F.col("entry_before.epoch"),
    )


def _of_markers(t: Tables) -> DataFrame:
    found = t.batches.where("marker_next.epoch < epoch")
    return finding(
        found,
        NAME,
        order=["tp", F.col("marker_next.offset")],
        record=_entry(F.col("marker_next.offset"), F.col("marker_next.epoch")),
        record_before=_entry(F.col("base_offset"), F.col("epoch")),
        marker=F.col("marker_next.type"),
        producer_id=F.col("producer_id"),
        epoch=F.col("marker_next.epoch"),
        epoch_before=F.col("epoch"),
    )


def _entry(offset: Column, epoch: Column) -> Column:
    return F.struct(
        F.col("tp").alias("tp"),
        offset.alias("offset"),
        F.col("producer_id").alias("producer_id"),
        epoch.alias("epoch"),
    )


def _of_states(t: Tables) -> DataFrame:
    went_on = F.col("before.state").isin("Ongoing", *COMPLETE) | F.expr(
        "before_2.producer_id = producer_id and before_2.epoch > epoch"
    )
    found = t.states.where("before.producer_id = producer_id and epoch < before.epoch").where(went_on)
    return finding(
        found,
        NAME,
        order=["log_tp", "log_offset"],
        record=state(),
        record_before=state("before."),
        transactional_id=F.col("transactional_id"),
        producer_id=F.col("producer_id"),
        epoch=F.col("epoch"),
        epoch_before=F.col("before.epoch"),
    )
