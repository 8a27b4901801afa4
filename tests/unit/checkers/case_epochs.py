"""Epochs and sequence numbers of producers."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row

# epoch-regression


@case(epoch_regression=1, zombie_write=1)
def an_epoch_that_goes_down_in_a_partition_is_a_regression(h: History) -> None:
    plain(h)
    h.append("y", None, 7, 3)
    h.append_marker("y", 7, "abort", 3)
    h.append("y", None, 7, 2)
    h.append("y", None, 7, 2)
    h.append_marker("y", 7, "abort", 2)
    for _ in range(2):
        h.log_transaction(7, ["y"], "Abort", epoch=3)


@case()
def an_epoch_that_goes_up_is_none(h: History) -> None:
    plain(h)
    h.append("y", None, 7, 2)
    h.append_marker("y", 7, "abort", 3)
    h.append("y", None, 7, 4)
    h.append_marker("y", 7, "abort", 4)


@case(broken=("the leader's log of y/0 is missing or damaged",))
def a_damaged_log_proves_no_epoch_regression(h: History) -> None:
    plain(h)
    for epoch in (3, 2):
        h.append("y", None, 7, epoch)
        h.append_marker("y", 7, "abort", epoch)
        h.log_transaction(7, ["y"], "Abort", epoch=3)
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["y"] else row)


@case()
def two_producers_have_epochs_of_their_own(h: History) -> None:
    plain(h)
    for pid, epoch in ((7, 3), (8, 2), (7, 3)):
        h.append("y", None, pid, epoch)
    h.append_marker("y", 7, "abort", 3)
    h.append_marker("y", 8, "abort", 2)


@case(epoch_regression=1)
def a_marker_of_a_lower_epoch_is_a_regression(h: History) -> None:
    plain(h)
    h.append("y", None, 7, 3)
    h.append_marker("y", 7, "abort", 2)


@case(epoch_regression=1)
def an_epoch_that_goes_down_in_the_transaction_log_is_a_regression(h: History) -> None:
    plain(h)
    h.log_transaction(7, (), "Commit", epoch=3)
    h.log_transaction(7, (), "Commit", epoch=2)


@case()
def a_new_producer_id_of_a_transactional_id_begins_at_epoch_0(h: History) -> None:
    plain(h)
    h.log_transaction(7, (), "Commit", epoch=3)
    h.log_state(7, "Empty", epoch=0)
    h.alter("transactions", lambda row: row | {"producer_id": 8} if row["state"] == "Empty" else row)


@case()
def an_epoch_that_was_raised_and_not_confirmed_is_no_regression(h: History) -> None:
    plain(h)
    h.log_transaction(7, (), "Commit", epoch=2)
    h.log_state(7, "Empty", epoch=3)
    h.log_state(7, "Empty", epoch=3)
    h.log_transaction(7, (), "Commit", epoch=2)


@case()
def the_epochs_of_another_producer_id_are_no_measure(h: History) -> None:
    plain(h)
    for pid, epoch in ((8, 5), (7, 3), (7, 2)):
        h.log_state(7, "Empty", epoch=epoch)
        h.rows["transactions"][-1]["producer_id"] = pid


# sequence-violation


@case(sequence_violation=1)
def batches_with_a_gap_in_their_sequences_are_a_violation(h: History) -> None:
    plain(h)
    h.append("y", None, 7, seq=4)
    h.append("y", None, 7, seq=6)
    h.append("y", None, 7, seq=7)
    h.append_marker("y", 7, "abort")


@case(sequence_violation=1, broken=("killed",))
def a_gap_in_the_sequences_of_a_whole_log_is_a_violation_though_the_run_was_killed(h: History) -> None:
    batches_with_a_gap_in_their_sequences_are_a_violation(h)
    h.incomplete = ("the run was killed",)


@case(broken=("killed", "lacks 1 offset", "1 records of y/0 were read that its log does not hold"))
def a_batch_that_the_table_of_a_killed_run_lacks_is_no_gap_in_the_sequences(h: History) -> None:
    plain(h)
    for _ in range(3):
        h.append("y", None, 7)
    h.append_marker("y", 7, "abort")
    h.alter("batches", lambda row: None if (row["tp"], row["base_offset"]) == (h.tp["y"], 1) else row)
    h.incomplete = ("the run was killed",)


@case(sequence_violation=1)
def a_repeated_batch_is_a_sequence_violation(h: History) -> None:
    plain(h)
    h.append("y", None, 7)
    h.append("y", None, 7, seq=0)
    h.append_marker("y", 7, "abort")


@case()
def sequences_continue_after_markers_and_other_producers(h: History) -> None:
    plain(h)
    h.append("y", None, 7)
    h.append("y", None, 8)
    h.append_marker("y", 7, "abort")
    h.append("y", None, 7)
    h.append_marker("y", 7, "abort")
    h.append_marker("y", 8, "abort")


def _new_epoch(h: History, sequence: int) -> None:
    plain(h)
    h.append("y", None, 7, 1)
    h.append_marker("y", 7, "abort", 2)
    h.append("y", None, 7, 2, seq=sequence)
    h.append_marker("y", 7, "abort", 2)


@case()
def a_new_epoch_begins_with_sequence_0(h: History) -> None:
    _new_epoch(h, 0)


@case(sequence_violation=1, examples={"sequence-violation": {"sequence": 5, "sequence_due": 0}})
def a_new_epoch_that_begins_with_another_sequence_is_a_violation(h: History) -> None:
    _new_epoch(h, 5)


@case()
def the_first_batch_of_a_producer_may_begin_with_any_sequence(h: History) -> None:
    plain(h)
    h.append("y", None, 7, 1, seq=5)
    h.append_marker("y", 7, "abort", 1)


@case()
def after_the_last_number_comes_0(h: History) -> None:
    plain(h)
    h.append("y", None, 7, seq=2**31 - 2)
    h.append("y", None, 7)
    h.append("y", None, 7, seq=0)
    h.append_marker("y", 7, "abort")


@case(sequence_violation=1)
def after_the_last_number_comes_no_other(h: History) -> None:
    plain(h)
    h.append("y", None, 7, seq=2**31 - 1)
    h.append("y", None, 7, seq=1)
    h.append_marker("y", 7, "abort")


@case()
def every_offset_commit_has_the_number_0(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.alter("partitions", lambda row: row | {"compacted": False})
    offsets = h.tp[OFFSETS]
    h.alter("batches", lambda row: row | {"base_sequence": 0} if row["tp"] == offsets else row)


@case()
def a_batch_of_several_records_has_as_many_numbers(h: History) -> None:
    plain(h)
    for _ in range(4):
        h.append("y", None, 7)
    h.append_marker("y", 7, "abort")

    def merge(row: Row) -> Row | None:
        """The first three records are in one batch."""
        if row["tp"] != h.tp["y"] or row["base_offset"] > 2:
            return row
        return row | {"last_offset": 2, "count": 3} if row["base_offset"] == 0 else None

    h.alter("batches", merge)


@case(broken=("y/0 is compacted",))
def a_compacted_partition_has_no_gaps(h: History) -> None:
    plain(h)
    h.append("y", None, 7)
    h.append("y", None, 7, seq=5)
    h.append_marker("y", 7, "abort")
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})


@case()
def offset_commits_have_no_numbers(h: History) -> None:
    plain(h)
    for _ in range(2):
        h.append(OFFSETS, None, 7, seq=0)
    h.append_marker(OFFSETS, 7, "abort")
