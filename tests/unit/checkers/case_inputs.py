"""Inputs: taken twice, or never."""

from cases import case
from histories import History


@case(reprocessed_input=1, overlapping_commit=1)
def two_visible_outputs_of_one_input_and_slot_are_a_reprocessed_input(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.take(0, worker="v", pid=2)


@case()
def a_second_output_that_was_aborted_is_none(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.take(0, worker="v", pid=2, outcome="fail")


@case()
def a_second_output_of_an_info_that_did_nothing_is_none(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="abort")
    h.take(0, worker="v", pid=2)


@case(reprocessed_input=1, overlapping_commit=1)
def a_second_output_of_an_info_that_was_committed_is_one(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit")
    h.take(0, worker="v", pid=2)


@case()
def two_outputs_in_two_slots_are_none(h: History) -> None:
    h.feed(1)
    h.take(0, gives="xy")


@case(reprocessed_input=1, overlapping_commit=1)
def an_input_of_a_filter_in_two_committed_ranges_is_reprocessed(h: History) -> None:
    h.feed(2)
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)
    h.take(0)
    h.take(1, gives="")
    h.take(1, gives="", poll=False)


@case()
def an_input_of_a_filter_in_an_aborted_range_and_a_committed_one_is_none(h: History) -> None:
    h.feed(2)
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)
    h.take(0)
    h.take(1, gives="", outcome="fail")
    h.take(1, gives="")


@case(lost_input=1)
def an_input_that_the_group_went_past_without_output_is_lost(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail")
    h.take(1)


@case()
def an_input_that_the_group_has_not_reached_is_not_lost(h: History) -> None:
    h.feed(2)
    h.take(0)


@case()
def an_aborted_input_is_not_lost(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.expect(1)
    h.feed(1)
    h.take(0)
    h.take(3)


@case()
def an_input_before_the_first_position_of_the_group_is_not_lost(h: History) -> None:
    h.feed(2)
    h.take(1)
    h.alter("assignments", lambda row: row | {"offset": 1})


@case(broken=("did not come to the end of x/0",))
def an_output_topic_that_was_not_read_to_the_end_accuses_nobody_of_a_lost_input(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail")
    h.take(1)
    h.alter("ends", lambda row: row | {"sentinel_offset": None} if row["tp"] == h.tp["x"] else row)


@case(
    lost_input=1,
    hanging_transaction=1,
    because={"lost-input": "hanging-transaction"},
    broken=("did not come to the end of x/0",),
)
def an_input_whose_output_hangs_is_lost(h: History) -> None:
    h.feed(1)
    h.take(0, fates={"x": "open"}, state="CompleteCommit")


@case(options={"log": False}, lost_input=1)
def without_logs_the_claims_of_committed_transactions_count(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail")
    h.take(1)


@case(unsettled=1, options={"log": False})
def without_logs_the_claims_of_an_info_count_for_nothing(h: History) -> None:
    h.feed(2)
    h.take(0)
    op = h.take(1, outcome="info", fate="abort")
    assert op.values


# overlapping-commit


@case(overlapping_commit=1, tells={"overlapping-commit": {"shared": 1}})
def two_committed_ranges_that_intersect_overlap(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(1, gives="", worker="v", pid=2)


@case()
def two_committed_ranges_side_by_side_do_not(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1, worker="v", pid=2)


@case()
def a_range_that_was_aborted_overlaps_nothing(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(1, gives="", worker="v", pid=2, outcome="fail")


@case()
def the_range_of_an_info_that_did_nothing_overlaps_nothing(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(1, gives="", worker="v", pid=2, outcome="info", fate="abort")


@case(overlapping_commit=1)
def the_range_of_an_info_that_was_committed_overlaps(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(1, gives="", worker="v", pid=2, outcome="info", fate="commit")


@case(options={"log": False}, not_checked=("overlapping-commit",))
def without_logs_overlaps_are_not_checked(h: History) -> None:
    h.feed(2)
    h.take(0, 1)
    h.take(1, gives="", worker="v", pid=2)


# premature-offset


def _beyond(h: History, **more: object) -> None:
    """Input 1, of which nothing is due, is claimed and was not given."""
    h.feed(2)
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)
    h.take(0, claim=(0, 2), **more)  # type: ignore[arg-type]


@case(premature_offset=1, tells={"premature-offset": {"claims": [{"first": 0, "next": 2}]}})
def an_offset_beyond_what_was_given_is_premature(h: History) -> None:
    _beyond(h)


@case(premature_offset=1, options={"log": False})
def without_logs_the_claim_of_a_committed_operation_is_enough(h: History) -> None:
    _beyond(h)


@case()
def an_aborted_offset_beyond_what_was_given_is_none(h: History) -> None:
    _beyond(h, outcome="fail")
    h.take(0)


@case()
def the_offset_of_an_info_that_did_nothing_is_none(h: History) -> None:
    _beyond(h, outcome="info", fate="abort")
    h.take(0)


@case(premature_offset=1)
def the_offset_of_an_info_that_was_committed_is_premature(h: History) -> None:
    _beyond(h, outcome="info", fate="commit")


@case()
def an_offset_beyond_markers_and_aborted_records_is_none(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.take(0, claim=(0, 3))


@case(premature_offset=1)
def what_another_process_was_given_does_not_count(h: History) -> None:
    h.feed(2)
    h.poll(h.op("v", "poll"), "a", 1, "f:1:0")
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)
    h.take(0, claim=(0, 2))


# stale-offset


def _takes_over(h: History) -> None:
    """v begins at input 0."""
    h.assign("v")
    h.poll(h.op("v", "poll"), "a", 0, "f:0:0")


@case(stale_offset=1)
def a_worker_that_begins_below_a_committed_offset_is_stale(h: History) -> None:
    h.feed(2)
    h.take(0)
    _takes_over(h)


@case()
def a_worker_that_was_assigned_before_the_commit_is_not(h: History) -> None:
    h.feed(2)
    h.assign("v")
    h.take(0)
    h.poll(h.op("v", "poll"), "a", 0, "f:0:0")


@case()
def a_worker_that_begins_below_the_offset_of_an_info_is_not(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="info", fate="commit")
    _takes_over(h)


@case()
def a_worker_that_begins_below_an_aborted_offset_is_not(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail")
    _takes_over(h)
    h.take(0)


@case()
def a_worker_that_begins_where_the_group_stands_is_not(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.assign("v")
    h.take(1, worker="v", pid=2)


@case()
def a_poll_in_which_the_partition_was_also_taken_away_begins_nothing(h: History) -> None:
    h.feed(2)
    h.take(0)
    op = h.op("v", "poll")
    h.assign("v", gained=False)
    h.assign("v")
    h.poll(op, "a", 0, "f:0:0")


# aggregate-mismatch


def _sums(h: History, *states: int) -> None:
    """Inputs 0 and 1 add 3 and 4 to k, and 2, which nobody takes, adds 9; the sums of k in y."""
    h.feed(3)
    for at, amount in enumerate((3, 4, 9)):
        h.adds(at, "k", amount)
    h.take(0, 1)
    for state in states:
        h.put("y", None, key="k", state=state)


@case(aggregate_mismatch=1)
def a_last_sum_that_is_not_the_sum_of_its_inputs_is_a_mismatch(h: History) -> None:
    _sums(h, 7, 4)


@case()
def a_last_sum_of_all_inputs_below_the_offset_is_right(h: History) -> None:
    _sums(h, 3, 7)


@case(aggregate_mismatch=1)
def a_key_without_a_sum_is_a_mismatch(h: History) -> None:
    _sums(h)


@case()
def an_aborted_sum_does_not_count(h: History) -> None:
    _sums(h, 7)
    h.put("y", None, 9, key="k", state=99)
    h.mark("y", 9, "abort")


@case(aggregate_mismatch=1)
def a_sum_of_a_key_to_which_nothing_was_added_is_a_mismatch(h: History) -> None:
    _sums(h, 7)
    h.put("y", None, key="j", state=1)


@case()
def inputs_that_cancel_each_other_need_no_sum(h: History) -> None:
    h.feed(2)
    h.adds(0, "k", 3)
    h.adds(1, "k", -3)
    h.take(0, 1)


@case(not_checked=("aggregate-mismatch",))
def a_workload_without_aggregates_is_not_checked_for_them(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("y", None, key="k", state=7)


@case(broken=("did not come to the end of y/0",))
def a_topic_of_sums_that_was_not_read_to_its_end_accuses_nobody(h: History) -> None:
    _sums(h, 4)
    h.alter("ends", lambda row: row | {"sentinel_offset": None} if row["tp"] == h.tp["y"] else row)
