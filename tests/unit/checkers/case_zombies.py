"""Producers that continued after they had been replaced."""

from typing import Any

from cases import case

from tests.support.histories import History, Op
from tests.support.stored_tables import OFFSETS

# zombie-write


@case(zombie_write=1, epoch_regression=1)
def a_batch_above_one_of_a_higher_epoch_is_a_zombie(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.alter(
        "batches",
        lambda row: row | {"epoch": 5} if row["tp"] == h.tp["x"] and row["base_offset"] == 0 else row,
    )


@case(epoch_regression=1)
def an_aborted_batch_above_a_higher_epoch_is_no_zombie(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="fail")
    h.transact(1, worker="v", pid=2)
    h.alter(
        "batches",
        lambda row: row | {"epoch": 5} if row["tp"] == h.tp["x"] and row["base_offset"] == 0 else row,
    )


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
