"""Producers that continued after they had been replaced."""

from typing import Any

from cases import case, plain

from tests.support.histories import TRANSACTIONS, History, Op
from tests.support.stored_tables import OFFSETS

# zombie-write


def _lower(h: History, how: str) -> None:
    """Producer 7 commits with epoch 5, and then writes with epoch 4 into a transaction of epoch 5."""
    plain(h)
    for data, end in ((5, "commit"), (4, how)):
        h.append("y", None, 7, data)
        h.append_marker("y", 7, end, 5)
        h.log_transaction(7, "y", end.capitalize(), 5)


@case(zombie_write=1, epoch_regression=1)
def a_batch_above_one_of_a_higher_epoch_is_a_zombie(h: History) -> None:
    _lower(h, "commit")


@case(epoch_regression=1)
def an_aborted_batch_above_a_higher_epoch_is_no_zombie(h: History) -> None:
    _lower(h, "abort")


@case(zombie_write=1)
def a_commit_after_another_has_taken_the_id_is_a_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.transact(0, worker="w1", transactional_id="i")


@case()
def a_commit_of_the_last_owner_of_the_id_is_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.transact(0, worker="w2", transactional_id="i")


@case()
def inits_at_the_same_time_prove_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=10)
    h.op("w2", "init", transactional_id="i", call_ns=2, return_ns=20)
    h.transact(0, worker="w1", transactional_id="i")


@case()
def an_info_without_effect_is_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.transact(0, worker="w1", transactional_id="i", outcome="info", fate="abort")
    h.transact(0, worker="w2", transactional_id="i", pid=2)


def _replaced(h: History, **more: Any) -> Op:
    """w2 has initialised the id of w1 and has finished all work. Then w1 does this operation."""
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.transact(0, worker="w2", transactional_id="i", pid=2)
    return h.op("w1", transactional_id="i", **more)


@case(zombie_write=1)
def a_zombie_that_commits_outputs_alone_is_one(h: History) -> None:
    op = _replaced(h)
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")


@case(zombie_write=1)
def a_zombie_that_commits_offsets_alone_is_one(h: History) -> None:
    h.commit_offset(1, _replaced(h), 1)
    h.append_marker(OFFSETS, 1, "commit")


@case(ghost_commit=1)
def the_time_of_a_killed_workers_commit_is_not_known(h: History) -> None:
    op = _replaced(h, outcome="info", commit_ns=None)
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")


@case(zombie_write=1, options={"log": False})
def without_logs_a_zombie_with_outcome_ok_is_found(h: History) -> None:
    op = _replaced(h)
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")


@case(zombie_write=1, options={"log": False})
def without_logs_a_zombie_with_outcome_info_that_was_read_is_found(h: History) -> None:
    op = _replaced(h, outcome="info")
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")


@case(unsettled=1, options={"log": False})
def without_logs_an_unread_zombie_with_outcome_info_is_not_found(h: History) -> None:
    op = _replaced(h, outcome="info")
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "abort")


@case(lost_commit=1, unseen=2, broken=("the leader's log of x/0 is missing",))
def with_logs_an_aborted_transaction_with_outcome_ok_is_no_zombie(h: History) -> None:
    op = _replaced(h)
    for topic in "xy":
        h.send(op, topic, h.append(topic, f"{op.name}:{len(op.values)}", 1, digest=7))
        h.append_marker(topic, 1, "abort")
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["x"] else row)


@case()
def an_initialisation_of_another_id_replaces_no_worker(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="j")
    h.transact(0, worker="w1", transactional_id="i")


@case(zombie_write=1)
def an_initialisation_of_another_id_does_not_take_the_own_id_back(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.op("w1", "init", transactional_id="j")
    h.transact(0, worker="w1", transactional_id="i")


@case()
def an_init_that_began_when_the_other_ended_proves_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=10)
    h.op("w2", "init", transactional_id="i", call_ns=10, return_ns=20)
    h.transact(0, worker="w1", transactional_id="i")


@case()
def a_worker_that_initialises_at_the_same_time_is_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=2)
    h.op("w1", "init", transactional_id="i", call_ns=20, return_ns=30)
    h.op("w2", "init", transactional_id="i", call_ns=25, return_ns=28)
    h.transact(0, worker="w1", transactional_id="i")


# epochs that the transaction log did not give


def _epochs(
    h: History, data: int, marker: int, *, given: int = 2, prepared: int | None = None, how: str = "commit"
) -> None:
    """Producer 7 writes a record to `y` in a transaction that the transaction log gives the epoch `given`."""
    plain(h)
    h.append("y", None, 7, data)
    h.append_marker("y", 7, how, marker)
    h.log_state(7, "Ongoing", "y", given)
    h.log_state(7, f"Prepare{how.capitalize()}", "y", given if prepared is None else prepared)
    h.log_state(7, f"Complete{how.capitalize()}", (), given if prepared is None else prepared)


@case()
def a_record_of_the_epoch_of_its_transaction_is_no_zombie(h: History) -> None:
    _epochs(h, 2, 2)


@case(zombie_write=1, examples={"zombie-write": {"epoch": 1, "epoch_given": 2}})
def a_committed_record_of_an_earlier_epoch_is_a_zombie(h: History) -> None:
    _epochs(h, 1, 2)


@case(zombie_write=2)
def a_committed_record_of_an_epoch_that_no_coordinator_gave_is_a_zombie(h: History) -> None:
    _epochs(h, 3, 3)


@case()
def an_aborted_record_of_an_earlier_epoch_is_no_zombie(h: History) -> None:
    _epochs(h, 1, 2, how="abort")


@case()
def an_abort_may_raise_the_epoch_of_its_marker(h: History) -> None:
    _epochs(h, 2, 3, prepared=3, how="abort")


@case()
def under_transaction_version_2_a_commit_raises_the_epoch_of_its_marker(h: History) -> None:
    _epochs(h, 2, 3, prepared=3)


@case(zombie_write=1)
def under_transaction_version_2_a_record_of_an_earlier_epoch_is_a_zombie(h: History) -> None:
    _epochs(h, 1, 3, prepared=3)


@case(zombie_write=1, examples={"zombie-write": {"marker": "commit", "epoch": 4, "epoch_given": 3}})
def a_commit_marker_of_an_epoch_that_was_not_prepared_is_one(h: History) -> None:
    _epochs(h, 2, 4, prepared=3)


@case(zombie_write=1)
def an_abort_marker_of_an_epoch_that_was_not_prepared_is_one(h: History) -> None:
    _epochs(h, 2, 5, prepared=3, how="abort")


def _late(h: History, before: int) -> None:
    """Producer 7 commits with the epoch `before`, and another record of that epoch is in its transaction of epoch 2."""
    plain(h)
    h.append("y", None, 7, before)
    h.append_marker("y", 7, "commit", before)
    h.log_transaction(7, "y", "Commit", before)
    h.append("y", None, 7, before, seq=1)
    h.append_marker("y", 7, "commit", 2)
    h.log_transaction(7, "y", "Commit", 2)


@case(zombie_write=1)
def an_epoch_that_was_right_in_an_earlier_transaction_is_wrong_in_a_later_one(h: History) -> None:
    _late(h, 0)


@case()
def a_second_transaction_of_one_epoch_is_right(h: History) -> None:
    _late(h, 2)


@case(zombie_write=1)
def an_offset_commit_of_an_earlier_epoch_is_a_zombie(h: History) -> None:
    plain(h)
    h.commit_offset(1, None, 7)
    h.append_marker(OFFSETS, 7, "commit", 2)
    h.log_transaction(7, [OFFSETS], "Commit", 2)


@case(zombie_write=1, broken=("the leader's log of __transaction_state/0 is missing",))
def without_the_transaction_log_a_marker_two_above_its_record_shows_a_zombie(h: History) -> None:
    _epochs(h, 1, 3, prepared=3)
    h.alter(
        "replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp[TRANSACTIONS] else row
    )


@case(broken=("the leader's log of __transaction_state/0 is missing",))
def without_the_transaction_log_a_marker_may_be_one_above_its_record(h: History) -> None:
    _epochs(h, 2, 3, prepared=3)
    h.alter(
        "replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp[TRANSACTIONS] else row
    )


@case(zombie_write=1)
def a_record_of_the_epoch_that_was_prepared_and_not_given_is_a_zombie(h: History) -> None:
    _epochs(h, 3, 3, prepared=3)


@case()
def a_prepared_epoch_that_the_completion_contradicts_proves_no_zombie(h: History) -> None:
    _epochs(h, 2, 3, prepared=3)
    h.alter(
        "transactions",
        lambda row: row | {"epoch": 4} if (row["state"], row["producer_id"]) == ("PrepareCommit", 7) else row,
    )
