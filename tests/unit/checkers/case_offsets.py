"""Committed offsets, compared with outputs, with each other, and with what was received."""

from cases import case

from tests.support.histories import History

# offset-output-mismatch


@case(offset_output_mismatch=1)
def an_offset_that_was_not_claimed_is_a_mismatch(h: History) -> None:
    h.feed(3)
    h.transact(0)
    h.transact(1, 2)
    h.alter("offsets", lambda row: row | {"committed": 4} if row["committed"] == 3 else row)


@case(offset_output_mismatch=1)
def an_output_from_outside_the_claim_is_a_mismatch(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, claim=(2, 2))
    h.alter("offsets", lambda row: row)


@case(offset_output_mismatch=1, lost_input=1, because={"lost-input": None})
def a_claimed_input_that_no_output_names_is_a_mismatch(h: History) -> None:
    h.feed(2)
    h.transact(0, 1, output_inputs=(0,))


@case(offset_output_mismatch=1)
def an_offset_outside_the_transaction_of_an_aborted_output_is_a_mismatch(h: History) -> None:
    h.feed(2)
    op = h.transact(0, outcome="fail", offsets_fate="")
    h.commit_offset(1, op)
    h.transact(0)
    h.transact(1)


@case()
def offsets_in_an_operation_of_their_own_are_no_mismatch(h: History) -> None:
    h.feed(1)
    h.transact(0, claim=None, offsets_fate="")
    h.rows["claims"].clear()
    op = h.op("w", "commit-offsets")
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 0, "next": 1})
    h.commit_offset(1, op)


@case()
def an_input_without_expected_outputs_may_be_claimed_alone(h: History) -> None:
    h.feed(3)
    h.transact(0, 1, 2, output_inputs=(0, 2))
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)


# group-offset-regression


@case(group_offset_regression=1, reprocessed_input=1, overlapping_commit=1)
def an_offset_that_goes_down_is_a_regression(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.transact(0, worker="v", pid=2)
    h.transact(1, worker="v", pid=2, to="", outcome="fail")


@case()
def an_offset_that_goes_down_in_an_aborted_transaction_is_none(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(0, outcome="fail", worker="v", pid=2)


@case()
def an_offset_after_a_tombstone_is_no_regression(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.commit_offset(None)
    h.commit_offset(1)
    h.commit_offset(2)


# overlapping-commit


@case(overlapping_commit=1, examples={"overlapping-commit": {"shared": 1}})
def two_committed_ranges_that_intersect_overlap(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, to="", worker="v", pid=2)


@case(
    group_offset_regression=1,
    overlapping_commit=1,
    examples={"overlapping-commit": {"operations": [{"op": 3}, {"op": 2}]}},
)
def of_two_ranges_that_begin_together_the_shorter_comes_first(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(0, to="", worker="v", pid=2)


@case()
def two_committed_ranges_side_by_side_do_not(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, worker="v", pid=2)


@case()
def a_range_that_was_aborted_overlaps_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, to="", worker="v", pid=2, outcome="fail")


@case()
def the_range_of_an_info_without_effect_overlaps_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, to="", worker="v", pid=2, outcome="info", fate="abort")


@case(overlapping_commit=1)
def the_range_of_an_info_that_was_committed_overlaps(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, to="", worker="v", pid=2, outcome="info", fate="commit")


@case(options={"log": False}, not_checked=("overlapping-commit",))
def without_logs_overlaps_are_not_checked(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.transact(1, to="", worker="v", pid=2)


# premature-offset


def _beyond(h: History, **more: object) -> None:
    """Input 1, which leads to nothing, is claimed but was not received."""
    h.feed(2)
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)
    h.transact(0, claim=(0, 2), **more)  # type: ignore[arg-type]


@case(premature_offset=1, examples={"premature-offset": {"claims": [{"first": 0, "next": 2}]}})
def an_offset_beyond_the_delivered_inputs_is_premature(h: History) -> None:
    _beyond(h)


@case(premature_offset=1, options={"log": False})
def without_logs_the_claim_of_a_committed_operation_is_enough(h: History) -> None:
    _beyond(h)


@case()
def an_aborted_offset_beyond_the_delivered_inputs_is_not_premature(h: History) -> None:
    _beyond(h, outcome="fail")
    h.transact(0)


@case()
def the_offset_of_an_info_without_effect_is_not_premature(h: History) -> None:
    _beyond(h, outcome="info", fate="abort")
    h.transact(0)


@case(premature_offset=1)
def the_offset_of_an_info_that_was_committed_is_premature(h: History) -> None:
    _beyond(h, outcome="info", fate="commit")


@case()
def an_offset_beyond_markers_and_aborted_records_is_none(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.transact(0, claim=(0, 3))


@case(premature_offset=1)
def inputs_delivered_to_another_process_do_not_count(h: History) -> None:
    h.feed(2)
    h.poll(h.op("v", "poll"), "a", 1, "f:1:0")
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)
    h.transact(0, claim=(0, 2))


# stale-offset


def _takes_over(h: History) -> None:
    """v begins at input 0."""
    h.assign("v")
    h.poll(h.op("v", "poll"), "a", 0, "f:0:0")


@case(stale_offset=1)
def a_worker_that_begins_below_a_committed_offset_is_stale(h: History) -> None:
    h.feed(2)
    h.transact(0)
    _takes_over(h)


@case(options={"log": False}, stale_offset=1)
def without_logs_the_offset_of_a_transaction_that_returned_ok_is_enough(h: History) -> None:
    h.feed(2)
    h.transact(0)
    _takes_over(h)


@case(options={"log": False})
def without_logs_the_offset_of_an_info_is_not_enough(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="info", fate="commit")
    _takes_over(h)


@case()
def an_offset_that_is_not_in_the_log_makes_no_poll_stale(h: History) -> None:
    h.feed(3)
    h.transact(0)
    h.transact(1, offsets_fate="")
    h.assign("v")
    h.poll(h.op("v", "poll"), "a", 1, "f:1:0")


@case()
def a_worker_that_was_assigned_before_the_commit_is_not(h: History) -> None:
    h.feed(2)
    h.assign("v")
    h.transact(0)
    h.poll(h.op("v", "poll"), "a", 0, "f:0:0")


@case()
def a_worker_that_begins_below_the_offset_of_an_info_is_not(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="info", fate="commit")
    _takes_over(h)


@case()
def a_worker_that_begins_below_an_aborted_offset_is_not(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    _takes_over(h)
    h.transact(0)


@case()
def a_worker_that_begins_at_the_groups_offset_is_not_stale(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.assign("v")
    h.transact(1, worker="v", pid=2)


@case()
def a_poll_in_which_the_partition_was_also_taken_away_begins_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0)
    op = h.op("v", "poll")
    h.assign("v", gained=False)
    h.assign("v")
    h.poll(op, "a", 0, "f:0:0")


@case()
def a_late_repeat_of_an_offset_commit_in_an_aborted_transaction_changes_nothing(h: History) -> None:
    h.feed(2)
    first = h.transact(0)
    h.commit_offset(1, first, 1)
    h.transact(1, outcome="fail")
    h.transact(1)
