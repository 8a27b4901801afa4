"""Replicas that differ, in one run and in several runs with the same partition numbers."""

from cases import case, plain

from harness.model.promises import SEGMENTS, Promises, final_readers
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, Row

# replica-divergence


def _follower(h: History, topic: str, at: int, **change: object) -> None:
    """Change what the follower holds at one offset. `gone=True`: it holds nothing there."""

    def bend(row: Row) -> Row | None:
        if row["broker"] == 1 or (row["tp"], row["base_offset"]) != (h.tp[topic], at):
            return row
        return None if change.get("gone") else row | change

    h.followers = 1
    h.alter("batches", bend)


@case(
    replica_divergence=1,
    examples={"replica-divergence": {"replicas": [{"broker": 1}, {"broker": 2, "crc": 9}], "lacking": []}},
)
def a_batch_with_another_checksum_is_a_divergence(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)


@case(replica_divergence=1, examples={"replica-divergence": {"replicas": [{"broker": 1}], "lacking": [2]}})
def a_batch_that_a_follower_lacks_is_a_divergence(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, gone=True)


@case(replica_divergence=1, broken=("its log does not hold", "the leader's log of y/0 lacks 1 offset"))
def a_batch_that_the_leader_lacks_is_a_divergence(h: History) -> None:
    plain(h)
    h.followers = 1
    h.append("y", None)
    gone = (1, h.tp["y"], 0)
    h.alter("batches", lambda row: None if (row["broker"], row["tp"], row["base_offset"]) == gone else row)


@case(replica_divergence=1)
def a_batch_of_another_leader_epoch_is_a_divergence(h: History) -> None:
    plain(h)
    h.alter("batches", lambda row: row | {"leader_epoch": 1})
    _follower(h, "x", 0, leader_epoch=0)


@case()
def replicas_that_hold_the_same_do_not_diverge(h: History) -> None:
    plain(h)
    h.followers = 2


@case()
def replicas_may_differ_above_the_high_watermark(h: History) -> None:
    plain(h)
    _follower(h, "y", 0, crc=9)
    h.alter(
        "replicas",
        lambda row: row | {"high_watermark": 0} if (row["tp"], row["broker"]) == (h.tp["y"], 2) else row,
    )


@case(broken=("on broker 2 the replica of a/0 begins at offset 1, and its leader's at 0",))
def batches_below_a_followers_log_start_are_a_gap(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, gone=True)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["broker"] == 2 else row)


@case(broken=("replicas in the table batches have one checksum and different contents for 1 batch",))
def markers_that_differ_with_equal_checksums_prove_nothing(h: History) -> None:
    plain(h)
    _follower(h, "x", 1, marker="abort")


@case(
    replica_divergence=1,
    broken=("on broker 1 the replica of x/0 ends at offset 3, below the high watermark 4",),
)
def a_leader_that_ends_below_the_high_watermark_of_a_follower_is_a_gap(h: History) -> None:
    plain(h)
    _follower(h, "x", 2, last_offset=3, count=2, crc=9)
    ends = {"log_end": 4, "high_watermark": 4}
    follower = h.tp["x"], 2
    h.alter("replicas", lambda row: row | ends if (row["tp"], row["broker"]) == follower else row)


@case(broken=("on broker 2 the replica of x/0 ends at offset 2, below the high watermark 3",))
def a_follower_that_is_behind_does_not_diverge_and_makes_a_run_unknown(h: History) -> None:
    plain(h)
    _follower(h, "x", 2, gone=True)
    h.alter(
        "replicas", lambda row: row | {"log_end": 2} if row["broker"] == 2 and row["tp"] == h.tp["x"] else row
    )


@case(replica_divergence=1)
def a_follower_behind_the_leader_epoch_is_compared_up_to_its_watermark(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    x = h.tp["x"]
    h.alter(
        "batches", lambda row: None if row["broker"] == 2 and row["tp"] == x and row["base_offset"] else row
    )
    behind = {"log_end": 1, "high_watermark": 1}
    h.alter("replicas", lambda row: row | behind if row["broker"] == 2 and row["tp"] == x else row)
    h.alter("batches", lambda row: row | {"leader_epoch": 2 if row["base_offset"] else 1})
    h.promises = Promises(
        journaled=("s",),
        witness=SEGMENTS,
        internal_logs=(OFFSETS, TRANSACTIONS),
        readers=final_readers("axy"),
    )


@case(broken=("on broker 2 the replica of x/0 has batches up to offset 0, and its log ends at 3",))
def a_follower_without_batches_is_a_gap_and_no_divergence(h: History) -> None:
    plain(h)
    h.followers = 2
    x = h.tp["x"]
    h.alter("batches", lambda row: None if row["broker"] == 2 and row["tp"] == x else row)


@case(broken=("the replicas of x/0 have 2 topic ids, so one is of another topic",))
def a_replica_of_another_topic_id_is_a_gap(h: History) -> None:
    plain(h)
    h.followers = 1
    other = h.tp["x"], 2
    h.alter("replicas", lambda row: row | {"topic_id": "z"} if (row["tp"], row["broker"]) == other else row)


@case()
def a_compacted_partition_may_differ(h: History) -> None:
    plain(h)
    _follower(h, OFFSETS, 0, crc=9)


@case(broken=("on broker 2 the replica of a/0 has no high watermark, and so do 4 other replicas there",))
def without_a_high_watermark_replicas_are_not_compared(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    h.alter("replicas", lambda row: row | {"high_watermark": None} if row["broker"] == 2 else row)


def _damaged(h: History, topic: str, log_end: int | None = None) -> None:
    """A part of the log of broker 2 cannot be read. The readable part ends at `log_end`. None: at the correct end."""
    end = {} if log_end is None else {"log_end": log_end}

    def bend(row: Row) -> Row:
        here = (row["broker"], row["tp"]) == (2, h.tp[topic])
        return row | {"damaged": "0.log: damaged from byte 61"} | end if here else row

    h.alter("replicas", bend)


@case(replica_divergence=1)
def the_readable_part_of_a_damaged_replica_is_compared(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    _damaged(h, "x")


@case(replica_divergence=1)
def a_batch_that_a_follower_can_no_longer_read_is_a_divergence(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, gone=True)
    _damaged(h, "x")


@case(broken=("the log of x/0 on broker 2 cannot be read from offset 1 on, and its high watermark is 3",))
def a_replica_that_cannot_be_read_up_to_the_high_watermark_is_a_gap(h: History) -> None:
    plain(h)
    h.followers = 1
    gone = h.tp["x"]
    h.alter(
        "batches",
        lambda row: None if row["broker"] == 2 and row["tp"] == gone and row["base_offset"] > 0 else row,
    )
    _damaged(h, "x", 1)


@case(broken=("the log of __consumer_offsets/0 on broker 2 cannot be read from offset 0 on",))
def an_unreadable_replica_is_a_gap(h: History) -> None:
    plain(h)
    h.followers = 1
    gone = h.tp[OFFSETS]
    h.alter("batches", lambda row: None if row["broker"] == 2 and row["tp"] == gone else row)
    _damaged(h, OFFSETS, 0)


@case()
def a_torn_tail_above_the_high_watermark_is_nothing(h: History) -> None:
    plain(h)
    h.followers = 1
    _damaged(h, "x")


@case(
    replica_divergence=1,
    broken=("the log of x/0 on broker 2 cannot be read from offset 0 on",),
)
def readable_replicas_are_compared_if_one_is_unreadable(h: History) -> None:
    plain(h)
    h.followers = 2
    x = h.tp["x"]

    def bend(row: Row) -> Row | None:
        if row["tp"] != x or row["broker"] == 1:
            return row
        return None if row["broker"] == 2 else row | ({"crc": 9} if row["base_offset"] == 2 else {})

    h.alter("batches", bend)
    _damaged(h, "x", 0)


@case(not_checked=("replica-divergence",))
def one_replica_alone_is_not_checked(h: History) -> None:
    plain(h)


@case(
    options={"log": False},
    not_checked=(
        "epoch-regression",
        "sequence-violation",
        "transaction-state-violation",
        "stuck-completion",
        "unmarked-partition",
        "replica-divergence",
        "undue-fencing",
        "stalled",
    ),
)
def without_logs_no_log_anomaly_is_checked(h: History) -> None:
    plain(h)


def _differs_in_y(h: History) -> None:
    """The follower holds a different batch in y."""
    h.feed(1)
    h.transact(0)
    h.append("y", None)
    h.followers = 1

    def bend(row: Row) -> Row:
        own = (row["broker"], row["tp"], row["base_offset"]) == (2, h.tp["y"], 0)
        return row | {"crc": 9} if own else row

    h.alter("batches", bend)


@case(replica_divergence=1)
def a_topic_that_is_not_compacted_may_not_differ(h: History) -> None:
    _differs_in_y(h)


@case(broken=("y/0 is compacted",))
def a_topic_that_is_compacted_in_this_run_may_differ(h: History) -> None:
    _differs_in_y(h)
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})
