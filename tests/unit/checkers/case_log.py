"""The brokers' log: epochs, sequences, states, markers and replicas that do not agree with each other."""

from cases import case
from histories import OFFSETS, History, Row


def plain(h: History) -> None:
    h.feed(1)
    h.take(0)


# epoch-regression


@case(epoch_regression=1)
def an_epoch_that_goes_down_in_a_partition_is_a_regression(h: History) -> None:
    plain(h)
    h.put("y", None, 7, 3)
    h.mark("y", 7, "abort", 3)
    h.put("y", None, 7, 2)
    h.put("y", None, 7, 2)
    h.mark("y", 7, "abort", 2)
    h.state(7, "CompleteAbort", epoch=3)


@case()
def an_epoch_that_goes_up_is_none(h: History) -> None:
    plain(h)
    h.put("y", None, 7, 2)
    h.mark("y", 7, "abort", 3)
    h.put("y", None, 7, 4)
    h.mark("y", 7, "abort", 4)


@case()
def two_producers_have_epochs_of_their_own(h: History) -> None:
    plain(h)
    for pid, epoch in ((7, 3), (8, 2), (7, 3)):
        h.put("y", None, pid, epoch)
    h.mark("y", 7, "abort", 3)
    h.mark("y", 8, "abort", 2)


@case(epoch_regression=1)
def a_marker_of_a_lower_epoch_is_a_regression(h: History) -> None:
    plain(h)
    h.put("y", None, 7, 3)
    h.mark("y", 7, "abort", 2)


@case(epoch_regression=1)
def an_epoch_that_goes_down_in_the_transaction_log_is_a_regression(h: History) -> None:
    plain(h)
    h.complete(7, (), "Commit", epoch=3)
    h.complete(7, (), "Commit", epoch=2)


@case()
def a_new_producer_id_of_a_transactional_id_begins_at_epoch_0(h: History) -> None:
    plain(h)
    h.complete(7, (), "Commit", epoch=3)
    h.state(7, "Empty", epoch=0)
    h.alter("transactions", lambda row: row | {"producer_id": 8} if row["state"] == "Empty" else row)


@case()
def an_epoch_that_was_raised_and_not_confirmed_is_no_regression(h: History) -> None:
    plain(h)
    h.complete(7, (), "Commit", epoch=2)
    h.state(7, "Empty", epoch=3)
    h.state(7, "Empty", epoch=3)
    h.complete(7, (), "Commit", epoch=2)


@case()
def the_epochs_of_another_producer_id_are_no_measure(h: History) -> None:
    plain(h)
    for pid, epoch in ((8, 5), (7, 3), (7, 2)):
        h.state(7, "Empty", epoch=epoch)
        h.rows["transactions"][-1]["producer_id"] = pid


# sequence-violation


@case(sequence_violation=1)
def batches_with_a_gap_in_their_sequences_are_a_violation(h: History) -> None:
    plain(h)
    h.put("y", None, 7, seq=4)
    h.put("y", None, 7, seq=6)
    h.put("y", None, 7, seq=7)
    h.mark("y", 7, "abort")


@case(sequence_violation=1)
def a_batch_that_stands_twice_is_a_violation(h: History) -> None:
    plain(h)
    h.put("y", None, 7)
    h.put("y", None, 7, seq=0)
    h.mark("y", 7, "abort")


@case()
def sequences_go_on_over_a_marker_and_beside_another_producer(h: History) -> None:
    plain(h)
    h.put("y", None, 7)
    h.put("y", None, 8)
    h.mark("y", 7, "abort")
    h.put("y", None, 7)
    h.mark("y", 7, "abort")
    h.mark("y", 8, "abort")


@case()
def a_new_epoch_may_begin_anywhere(h: History) -> None:
    plain(h)
    h.put("y", None, 7, 1)
    h.mark("y", 7, "abort", 2)
    h.put("y", None, 7, 2, seq=5)
    h.mark("y", 7, "abort", 2)


@case()
def after_the_last_number_comes_0(h: History) -> None:
    plain(h)
    h.put("y", None, 7, seq=2**31 - 2)
    h.put("y", None, 7)
    h.put("y", None, 7, seq=0)
    h.mark("y", 7, "abort")


@case(sequence_violation=1)
def after_the_last_number_comes_no_other(h: History) -> None:
    plain(h)
    h.put("y", None, 7, seq=2**31 - 1)
    h.put("y", None, 7, seq=1)
    h.mark("y", 7, "abort")


@case()
def a_batch_of_several_records_has_as_many_numbers(h: History) -> None:
    plain(h)
    for _ in range(4):
        h.put("y", None, 7)
    h.mark("y", 7, "abort")

    def merge(row: Row) -> Row | None:
        """The first three records stand in one batch."""
        if row["tp"] != h.tp["y"] or row["base_offset"] > 2:
            return row
        return row | {"last_offset": 2, "count": 3} if row["base_offset"] == 0 else None

    h.alter("batches", merge)


@case(broken=("y/0 is compacted",))
def a_compacted_partition_has_no_gaps(h: History) -> None:
    plain(h)
    h.put("y", None, 7)
    h.put("y", None, 7, seq=5)
    h.mark("y", 7, "abort")
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})


@case()
def offset_commits_have_no_numbers(h: History) -> None:
    plain(h)
    for _ in range(2):
        h.put(OFFSETS, None, 7, seq=0)
    h.mark(OFFSETS, 7, "abort")


# transaction-state-violation


@case(transaction_state_violation=1)
def a_transaction_that_was_prepared_to_commit_and_aborted_is_a_violation(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing", "x")
    h.state(7, "PrepareCommit", "x")
    h.state(7, "CompleteAbort")


@case(transaction_state_violation=1)
def a_transaction_that_is_complete_without_being_prepared_is_a_violation(h: History) -> None:
    plain(h)
    h.state(7, "Empty")
    h.state(7, "Ongoing")
    h.state(7, "CompleteCommit")


@case(transaction_state_violation=1)
def a_commit_is_not_prepared_twice(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(7, "PrepareCommit")
    h.state(7, "CompleteCommit")


@case()
def the_life_of_a_transactional_id_is_legal(h: History) -> None:
    plain(h)
    h.state(7, "Empty")
    h.state(7, "Ongoing", "x")
    h.state(7, "Ongoing", "xy")
    h.state(7, "PrepareAbort", "xy", epoch=1)
    h.state(7, "CompleteAbort", epoch=1)
    h.state(7, "Empty", epoch=2)
    h.state(7, "Empty", epoch=3)
    h.complete(7, "", "Commit", epoch=3)
    h.complete(7, "", "Abort", epoch=3)
    h.state(7, "Tombstone")
    h.state(7, "Ongoing")
    h.alter(
        "transactions",
        lambda row: row | {"producer_id": None, "epoch": None} if row["state"] == "Tombstone" else row,
    )


@case()
def an_abort_of_nothing_raises_the_epoch(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(7, "PrepareAbort", epoch=1)
    h.state(7, "CompleteAbort", epoch=1)


@case(transaction_state_violation=1)
def an_abort_of_nothing_that_does_not_raise_the_epoch_is_a_violation(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(7, "PrepareAbort")
    h.state(7, "CompleteAbort")


@case()
def the_first_state_in_the_log_is_not_judged(h: History) -> None:
    plain(h)
    h.state(7, "CompleteCommit")


@case()
def two_transactional_ids_have_states_of_their_own(h: History) -> None:
    plain(h)
    for state in ("Ongoing", "PrepareCommit", "CompleteCommit"):
        h.state(7, state)
        h.state(8, state)


@case()
def a_state_that_is_written_again_is_legal(h: History) -> None:
    plain(h)
    for state in ("Ongoing", "PrepareCommit", "CompleteCommit"):
        h.state(7, state)
        h.state(7, state)


@case()
def a_state_that_was_not_confirmed_may_be_passed_over(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(7, "Ongoing", "x")
    h.state(7, "Ongoing", "x")
    h.state(7, "Empty", epoch=1)
    h.state(7, "Ongoing", epoch=1)
    h.state(7, "PrepareCommit", epoch=1)
    h.state(7, "PrepareAbort", epoch=2)
    h.state(7, "CompleteAbort", epoch=2)


@case()
def two_states_that_were_not_confirmed_may_be_passed_over(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(7, "Ongoing", "x")
    h.state(7, "Ongoing", "y")
    h.state(7, "Empty", epoch=1)


# stuck-completion


@case(stuck_completion=1)
def a_transaction_that_stays_prepared_is_stuck(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareCommit")
    h.clock += 30_001_000_000


@case()
def a_transaction_that_was_prepared_just_now_is_not_stuck(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareAbort")
    h.clock += 29_000_000_000


@case()
def a_transaction_that_was_completed_is_not_stuck(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(8, "Ongoing")
    h.clock += 60_000_000_000


@case(broken=("killed",))
def a_run_that_was_cut_short_has_no_stuck_completion(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareAbort")
    h.clock += 60_000_000_000
    h.incomplete = ("the run was killed",)


# unmarked-partition


@case(unmarked_partition=1, hanging_transaction=1, broken=("did not come to the end of y/0",))
def a_partition_without_the_marker_of_a_completed_transaction_is_unmarked(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.put("y", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "xy", "Abort")


@case(
    unmarked_partition=1,
    tells={
        "unmarked-partition": {
            "record": {"offset": 3},
            "markers": 1,
            "completions": 2,
            "last_completion": {"offset": 8, "state": "CompleteAbort"},
        }
    },
)
def a_marker_of_the_next_transaction_does_not_make_up_for_a_missing_one(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.complete(7, "x", "Abort")
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "x", "Abort")


@case()
def a_marker_that_was_written_twice_is_none_too_many(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.mark("x", 7, "abort")
    h.complete(7, "x", "Abort")


@case()
def a_partition_that_was_named_and_not_written_needs_no_marker(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "xy", "Abort")


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_record_behind_its_own_marker_hangs_and_is_not_unmarked(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "x", "Abort")
    h.put("x", None, 7)


@case()
def a_marker_may_be_gone_from_a_compacted_partition(h: History) -> None:
    plain(h)
    h.put(OFFSETS, None, 7)
    h.mark(OFFSETS, 7, "abort")
    for _ in range(2):
        h.complete(7, [OFFSETS], "Abort")


@case()
def a_transaction_that_is_only_prepared_is_not_unmarked(h: History) -> None:
    plain(h)
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "x", "Abort")
    h.state(7, "Ongoing", "x")
    h.state(7, "PrepareAbort", "x")


@case(broken=("the log of x/0 begins at offset 1",))
def a_log_whose_beginning_is_gone_may_have_lost_a_marker(h: History) -> None:
    h.feed(1)
    h.put("x", None, 7)
    h.complete(7, "x", "Abort")
    h.put("x", None, 7)
    h.mark("x", 7, "abort")
    h.complete(7, "x", "Abort")
    h.take(0)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == h.tp["x"] else row)


# replica-divergence


def _follower(h: History, topic: str, at: int, **change: object) -> None:
    """Bend what the follower holds at one offset; `gone=True`: it holds nothing there."""

    def bend(row: Row) -> Row | None:
        if row["broker"] == 1 or (row["tp"], row["base_offset"]) != (h.tp[topic], at):
            return row
        return None if change.get("gone") else row | change

    h.followers = 1
    h.alter("batches", bend)


@case(replica_divergence=1)
def a_batch_with_another_checksum_is_a_divergence(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)


@case(replica_divergence=1)
def a_batch_that_a_follower_lacks_is_a_divergence(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, gone=True)


@case(replica_divergence=1, broken=("its log does not hold",))
def a_batch_that_the_leader_lacks_is_a_divergence(h: History) -> None:
    plain(h)
    h.followers = 1
    h.put("y", None)
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
def what_stands_above_the_high_watermark_may_differ(h: History) -> None:
    plain(h)
    _follower(h, "y", 0, crc=9)
    h.alter(
        "replicas",
        lambda row: row | {"high_watermark": 0} if (row["tp"], row["broker"]) == (h.tp["y"], 2) else row,
    )


@case()
def what_stands_below_a_log_start_may_be_gone(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, gone=True)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["broker"] == 2 else row)


@case()
def a_follower_that_is_behind_does_not_diverge(h: History) -> None:
    plain(h)
    _follower(h, "x", 2, gone=True)
    h.alter("replicas", lambda row: row | {"log_end": 2} if row["broker"] == 2 else row)


@case()
def a_follower_that_was_not_in_step_with_the_last_leader_is_not_judged(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    h.alter("batches", lambda row: row | {"leader_epoch": 2 if row["broker"] == 1 else 1})


@case()
def beside_a_follower_that_was_not_in_step_another_one_is_judged(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    h.followers = 2
    stale = {"leader_epoch": 1, "crc": 9}
    h.alter("batches", lambda row: row | (stale if row["broker"] == 2 else {"leader_epoch": 2, "crc": 0}))


@case()
def a_compacted_partition_may_differ(h: History) -> None:
    plain(h)
    _follower(h, OFFSETS, 0, crc=9)


@case()
def without_a_high_watermark_nothing_must_be_the_same(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    h.alter("replicas", lambda row: row | {"high_watermark": None} if row["broker"] == 2 else row)


@case()
def a_replica_that_cannot_be_read_is_not_judged(h: History) -> None:
    plain(h)
    _follower(h, "x", 0, crc=9)
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["broker"] == 2 else row)


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
def without_logs_nothing_of_the_log_is_checked(h: History) -> None:
    plain(h)
