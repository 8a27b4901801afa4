"""Transactions: torn, lost, ghosts, zombies, hanging ones; and the offsets that go with them."""

from typing import Any

from cases import case
from histories import OFFSETS, History, Op


@case()
def a_plain_history_is_clean(h: History) -> None:
    h.feed(3)
    h.take(0, gives="x")
    h.take(1, 2, gives="xy")


@case()
def two_rounds_with_an_abort_and_a_retry_are_clean(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail")
    h.take(0)
    h.take(1, worker="v", pid=2)


@case()
def repeated_markers_and_markers_without_data_are_clean(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.mark("x", 1, "commit", epoch=1)
    h.mark("y", 1, "abort", epoch=1)
    h.mark("x", 1, "abort", epoch=1)


@case()
def an_info_whose_records_are_committed_is_settled_as_committed(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit")


@case()
def an_info_whose_records_are_aborted_is_settled_as_aborted(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="abort")
    h.take(0)


@case()
def offset_only_output_only_and_empty_transactions_are_clean(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op()
    h.offset(1, op, 1)
    h.mark(OFFSETS, 1, "commit")
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 1, "next": 1})
    alone = h.op()
    h.send(alone, "y", h.put("y", f"{alone.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")
    h.op()


# torn-transaction


@case(
    torn_transaction=1,
    lost_commit=1,
    lost_write=1,
    unseen=1,
    offset_output_mismatch=1,
    because={"torn-transaction": "lost-commit", "lost-commit": None, "offset-output-mismatch": "lost-commit"},
)
def committed_in_x_and_aborted_in_y_is_torn(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy", fates={"y": "abort"})


@case(
    torn_transaction=1,
    offset_output_mismatch=1,
    lost_write=1,
    because={"offset-output-mismatch": "torn-transaction", "lost-write": "torn-transaction"},
)
def an_info_torn_apart_is_torn(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy", outcome="info", fates={"y": "abort"})


@case()
def an_open_part_is_not_torn_while_its_transaction_is_listed(h: History) -> None:
    h.feed(1)
    h.take(0, gives="x")
    h.take(gives="", outcome="info")


@case(torn_transaction=1, hanging_transaction=1, broken=("did not come to the end of y/0",))
def a_part_left_open_after_complete_is_torn(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy", fates={"y": "open"}, state="CompleteCommit")


@case(broken=("did not come to the end of y/0",))
def a_part_still_listed_as_ongoing_is_neither_torn_nor_hanging(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy", fates={"y": "open"}, state="Ongoing")


@case(
    torn_transaction=1,
    options={"log": False},
    because={"torn-transaction": None},
    not_checked=("lost-commit", "dirty-read", "hanging-transaction"),
    lost_write=1,
    unseen=1,
)
def without_logs_half_read_is_torn(h: History) -> None:
    h.feed(2)
    op = h.take(0, gives="xy")
    h.take(1, gives="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


@case(unsettled=1, options={"log": False})
def without_logs_an_info_of_which_nothing_was_read_is_nothing(h: History) -> None:
    h.feed(1)
    op = h.take(0, outcome="info")
    h.alter("polls", lambda row: None if row["value"] in op.values else row)
    h.take(0, worker="v", pid=2)


@case(options={"log": False}, lost_write=2, unseen=2)
def without_logs_a_transaction_of_which_nothing_was_read_is_lost_and_not_torn(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy")
    op = h.op()
    for topic in "xy":
        h.send(op, topic, h.put(topic, f"{op.name}:{len(op.values)}", 1, digest=7))
        h.mark(topic, 1, "commit")
    h.alter("polls", lambda row: None if row["value"] in op.values else row)


@case(options={"log": False}, lost_write=1, unseen=1)
def without_logs_half_of_what_was_sent_outside_a_transaction_is_lost_and_not_torn(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("f", "send")
    for _ in range(2):
        h.send(op, "y", h.put("y", f"{op.name}:{len(op.values)}", digest=7))
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


def _late(h: History) -> None:
    """Of two sends one was given up: its record came after the commit, and was aborted with the next ones."""
    h.feed(1)
    h.take(0)
    op = h.op(outcome="info")
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")
    h.put("y", h.send(op, "y"), 1, digest=7)
    h.mark("y", 1, "abort")


@case()
def a_record_that_was_never_acknowledged_tears_nothing(h: History) -> None:
    _late(h)


@case(options={"log": False})
def without_logs_a_record_that_was_never_acknowledged_tears_nothing(h: History) -> None:
    _late(h)


@case(torn_transaction=1, lost_commit=1, offset_output_mismatch=1, broken=("no final reader",))
def what_the_logs_tear_apart_is_torn_whether_or_not_anybody_read_it(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy", fates={"y": "abort"})
    h.alter("ends", lambda _: None)


# lost-commit and ghost-commit


@case(
    lost_commit=1,
    lost_write=1,
    unseen=1,
    lost_input=1,
    offset_output_mismatch=1,
    because={
        "lost-write": "lost-commit",
        "unseen": "lost-commit",
        "lost-input": "lost-commit",
        "offset-output-mismatch": "lost-commit",
        "lost-commit": None,
    },
)
def outputs_aborted_under_a_commit_that_was_told_ok_are_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.take(0, fates={"x": "abort"})


@case(lost_commit=1, offset_output_mismatch=1)
def offsets_aborted_under_a_commit_that_was_told_ok_are_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.take(0, offsets_fate="abort")


def _uncompacted(h: History) -> None:
    """Nothing ever goes from the log of offset commits. The last transaction sends none of its own."""
    h.feed(2)
    h.take(0)
    h.take(1, offsets_fate="")
    h.alter("partitions", lambda row: row | {"compacted": False})


@case(lost_commit=1)
def offsets_gone_from_an_uncompacted_log_are_a_lost_commit(h: History) -> None:
    _uncompacted(h)


@case()
def offsets_gone_from_a_log_that_names_not_every_operation_are_none(h: History) -> None:
    _uncompacted(h)
    h.offset(2)


@case()
def a_transaction_without_offsets_lacks_none_in_an_uncompacted_log(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.take(gives="")
    h.alter("partitions", lambda row: row | {"compacted": False})


@case()
def an_info_commit_that_was_aborted_is_no_lost_commit(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="abort")
    h.take(0)


@case(
    ghost_commit=1,
    aborted_read=1,
    because={"aborted-read": "ghost-commit"},
    tells={"ghost-commit": {"told": "it had not happened"}},
)
def records_of_an_abort_that_were_committed_are_a_ghost(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail", fate="commit")
    h.take(1)


@case(ghost_commit=1, tells={"ghost-commit": {"told": "nothing: the commit was never invoked"}})
def records_of_a_worker_killed_before_its_commit_are_a_ghost(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit", commit_ns=None)


@case(
    ghost_commit=1,
    reprocessed_input=1,
    aborted_read=1,
    overlapping_commit=1,
    because={"reprocessed-input": "ghost-commit", "overlapping-commit": "ghost-commit"},
)
def a_ghost_whose_inputs_are_taken_again_reprocesses_them(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="commit")
    h.take(0)


@case()
def an_info_whose_commit_was_asked_for_is_no_ghost(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit")


@case(broken=("lacks 1 lines",))
def a_journal_with_gaps_accuses_nobody_of_a_ghost(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit", commit_ns=None)
    h.alter("journals", lambda row: row | {"missing_lines": 1} if row["journal"] == "w" else row)


# offset-output-mismatch


@case(offset_output_mismatch=1)
def an_offset_at_another_place_than_claimed_is_a_mismatch(h: History) -> None:
    h.feed(3)
    h.take(0)
    h.take(1, 2)
    h.alter("offsets", lambda row: row | {"committed": 4} if row["committed"] == 3 else row)


@case(offset_output_mismatch=1)
def an_output_from_outside_the_claim_is_a_mismatch(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1, claim=(2, 2))
    h.alter("offsets", lambda row: row)


@case(offset_output_mismatch=1, lost_input=1, because={"lost-input": None})
def a_claimed_input_that_no_output_names_is_a_mismatch(h: History) -> None:
    h.feed(2)
    h.take(0, 1, names=(0,))


@case(offset_output_mismatch=1)
def an_offset_outside_the_transaction_of_an_aborted_output_is_a_mismatch(h: History) -> None:
    h.feed(2)
    op = h.take(0, outcome="fail", offsets_fate="")
    h.offset(1, op)
    h.take(0)
    h.take(1)


@case()
def offsets_in_an_operation_of_their_own_are_no_mismatch(h: History) -> None:
    h.feed(1)
    h.take(0, claim=None, offsets_fate="")
    h.rows["claims"].clear()
    op = h.op("w", "commit-offsets")
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 0, "next": 1})
    h.offset(1, op)


@case()
def an_input_that_owes_nothing_may_be_claimed_without_output(h: History) -> None:
    h.feed(3)
    h.take(0, 1, 2, names=(0, 2))
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)


# group-offset-regression


@case(group_offset_regression=1, reprocessed_input=1, overlapping_commit=1)
def an_offset_that_goes_down_is_a_regression(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1)
    h.take(0, worker="v", pid=2)
    h.take(1, worker="v", pid=2, gives="", offsets_fate="abort")
    h.alter("ops", lambda row: row | {"outcome": "fail", "asked": "abort"} if row["name"] == "v:1" else row)


@case()
def an_offset_that_goes_down_in_an_aborted_transaction_is_none(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(0, outcome="fail", worker="v", pid=2)


@case()
def an_offset_after_a_tombstone_is_no_regression(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.offset(None)
    h.offset(1)
    h.offset(2)


# zombie-write and hanging-transaction


@case(zombie_write=1, epoch_regression=1)
def a_batch_above_one_of_a_higher_epoch_is_a_zombie(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1)
    h.alter(
        "batches",
        lambda row: row | {"epoch": 5} if row["tp"] == h.tp["x"] and row["base_offset"] == 0 else row,
    )


@case(epoch_regression=1)
def an_aborted_batch_above_a_higher_epoch_is_no_zombie(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1, outcome="fail")
    h.take(1, worker="v", pid=2)
    h.alter(
        "batches",
        lambda row: row | {"epoch": 5} if row["tp"] == h.tp["x"] and row["base_offset"] == 0 else row,
    )


@case(zombie_write=1)
def a_commit_after_another_has_taken_the_id_is_a_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.take(0, worker="w1", transactional_id="i")


@case()
def a_commit_of_the_one_who_took_the_id_last_is_none(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.take(0, worker="w2", transactional_id="i")


@case()
def inits_at_the_same_time_prove_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=10)
    h.op("w2", "init", transactional_id="i", call_ns=2, return_ns=20)
    h.take(0, worker="w1", transactional_id="i")


@case()
def a_zombie_whose_commit_was_not_told_and_did_nothing_is_none(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.take(0, worker="w1", transactional_id="i", outcome="info", fate="abort")
    h.take(0, worker="w2", transactional_id="i", pid=2)


def _replaced(h: History, **more: Any) -> Op:
    """w1 has lost the id to w2, which has done all there is to do; what w1 does then."""
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.take(0, worker="w2", transactional_id="i", pid=2)
    return h.op("w1", transactional_id="i", **more)


@case(zombie_write=1)
def a_zombie_that_commits_outputs_alone_is_one(h: History) -> None:
    op = _replaced(h)
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")


@case(zombie_write=1)
def a_zombie_that_commits_offsets_alone_is_one(h: History) -> None:
    h.offset(1, _replaced(h), 1)
    h.mark(OFFSETS, 1, "commit")


@case(ghost_commit=1)
def when_a_worker_that_was_killed_before_its_commit_took_effect_nobody_knows(h: History) -> None:
    op = _replaced(h, outcome="info", commit_ns=None)
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")


@case(zombie_write=1, options={"log": False})
def without_logs_a_zombie_that_was_told_ok_is_one(h: History) -> None:
    op = _replaced(h)
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")


@case(zombie_write=1, options={"log": False})
def without_logs_a_zombie_that_was_told_nothing_and_was_read_is_one(h: History) -> None:
    op = _replaced(h, outcome="info")
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")


@case(unsettled=1, options={"log": False})
def without_logs_a_zombie_that_was_told_nothing_and_never_read_is_none(h: History) -> None:
    op = _replaced(h, outcome="info")
    h.send(op, "y", h.put("y", f"{op.name}:0", 1, digest=7))
    h.mark("y", 1, "abort")


@case(lost_commit=1, unseen=2, broken=("the leader's log of x/0 is not here",))
def a_zombie_that_was_told_ok_and_was_aborted_where_there_is_a_log_is_none(h: History) -> None:
    op = _replaced(h)
    for topic in "xy":
        h.send(op, topic, h.put(topic, f"{op.name}:{len(op.values)}", 1, digest=7))
        h.mark(topic, 1, "abort")
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["x"] else row)


@case()
def whoever_takes_another_id_replaces_nobody(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="j")
    h.take(0, worker="w1", transactional_id="i")


@case(zombie_write=1)
def whoever_takes_another_id_has_not_taken_its_own_back(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i")
    h.op("w2", "init", transactional_id="i")
    h.op("w1", "init", transactional_id="j")
    h.take(0, worker="w1", transactional_id="i")


@case()
def an_init_that_began_when_the_other_ended_proves_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=10)
    h.op("w2", "init", transactional_id="i", call_ns=10, return_ns=20)
    h.take(0, worker="w1", transactional_id="i")


@case()
def whoever_takes_its_id_back_while_another_takes_it_is_no_zombie(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="i", call_ns=1, return_ns=2)
    h.op("w1", "init", transactional_id="i", call_ns=20, return_ns=30)
    h.op("w2", "init", transactional_id="i", call_ns=25, return_ns=28)
    h.take(0, worker="w1", transactional_id="i")


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_record_open_after_its_transaction_was_aborted_hangs(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")


@case(broken=("did not come to the end of x/0",))
def a_record_open_at_the_high_watermark_does_not_hang(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.alter("replicas", lambda row: row | {"high_watermark": 0} if row["tp"] == h.tp["x"] else row)


@case(broken=("did not come to the end of x/0",))
def a_record_of_a_transaction_that_is_under_way_does_not_hang(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="open", offsets_fate="abort", state="Ongoing")


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_transaction_that_is_under_way_for_too_long_hangs(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="open", offsets_fate="abort", state="Ongoing")
    h.clock += 60_000_000_000


@case(broken=("killed", "did not come to the end of x/0"))
def a_run_that_was_cut_short_has_no_hanging_transaction(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.incomplete = ("the run was killed",)
