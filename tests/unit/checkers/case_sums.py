"""Sums of one group or of several, also with aborted inputs."""

from case_groups import takes_in_another_group
from cases import case

from tests.support.histories import History

# aggregate-mismatch


def _sums(h: History, *states: int) -> None:
    """Inputs 0 and 1 add 3 and 4 to k. Input 2 adds 9, but no worker takes it. `sums`: the sums of k in y."""
    h.feed(3)
    for at, amount in enumerate((3, 4, 9)):
        h.expect_amount(at, "k", amount)
    h.transact(0, 1)
    for state in states:
        h.append("y", None, key="k", state=state)


@case(
    aggregate_mismatch=1,
    examples={"aggregate-mismatch": {"input": {"topic": "a", "partition": 0, "offset": 1}}},
)
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
    h.append("y", None, 9, key="k", state=99)
    h.append_marker("y", 9, "abort")


@case(aggregate_mismatch=1, examples={"aggregate-mismatch": {"input": None}})
def a_sum_of_a_key_to_which_nothing_was_added_is_a_mismatch(h: History) -> None:
    _sums(h, 7)
    h.append("y", None, key="j", state=1)


@case()
def inputs_that_cancel_each_other_need_no_sum(h: History) -> None:
    h.feed(2)
    h.expect_amount(0, "k", 3)
    h.expect_amount(1, "k", -3)
    h.transact(0, 1)


@case(not_checked=("aggregate-mismatch",))
def a_workload_without_aggregates_is_not_checked_for_them(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("y", None, key="k", state=7)


@case(broken=("did not come to the end of y/0",))
def a_partly_read_topic_of_sums_makes_no_finding(h: History) -> None:
    _sums(h, 4)
    h.alter("ends", lambda row: row | {"sentinel_offset": None} if row["tp"] == h.tp["y"] else row)


def _fed(h: History) -> None:
    """Inputs 0 and 1 add 3 and 4 to k, and the group has processed both."""
    h.feed(2)
    h.expect_amount(0, "k", 3)
    h.expect_amount(1, "k", 4)
    h.transact(0, 1)


@case()
def a_sum_is_compared_up_to_the_offset_of_its_group(h: History) -> None:
    _fed(h)
    takes_in_another_group(h, 0, 1)
    h.append("y", None, key="k", state=7)


@case(options={"inputs": "ab"})
def a_sum_is_measured_by_the_offset_of_the_partition_of_its_inputs(h: History) -> None:
    _fed(h)
    h.feed(1, "b")
    h.transact(0, source="b")
    h.append("y", None, key="k", state=7)


@case()
def an_aborted_input_adds_nothing(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.feed(1)
    for at, amount in ((0, 3), (1, 99), (3, 4)):
        h.expect_amount(at, "k", amount)
    h.transact(0, 3)
    h.append("y", None, key="k", state=7)


@case(options={"outputs": "xyz"}, aggregate_mismatch=1, examples={"aggregate-mismatch": {"state": 4}})
def a_key_in_two_partitions_that_ends_right_in_neither_is_a_mismatch(h: History) -> None:
    _fed(h)
    h.append("y", None, key="k", state=3)
    h.append("z", None, key="k", state=7)
    h.append("z", None, key="k", state=4)
    h.alter("partitions", lambda row: row | {"topic": "y", "partition": 1} if row["topic"] == "z" else row)


@case(options={"outputs": "xyz"})
def a_key_in_two_partitions_with_one_correct_sum_makes_no_finding(h: History) -> None:
    _fed(h)
    h.append("y", None, key="k", state=7)
    h.append("z", None, key="k", state=3)
    h.append("z", None, key="k", state=4)
    h.alter("partitions", lambda row: row | {"topic": "y", "partition": 1} if row["topic"] == "z" else row)


@case(options={"log": False}, aggregate_mismatch=1)
def without_logs_the_last_sum_that_was_read_counts(h: History) -> None:
    _fed(h)
    h.append("y", None, key="k", state=7)
    h.append("y", None, key="k", state=4)


@case(options={"log": False})
def without_logs_a_right_sum_is_right(h: History) -> None:
    _fed(h)
    h.append("y", None, key="k", state=7)


def _compacted(h: History) -> None:
    y = h.tp["y"]
    h.alter("partitions", lambda row: row | {"compacted": True} if row["tp"] == y else row)


@case()
def a_topic_of_sums_needs_no_more_than_the_last_record_of_each_key(h: History) -> None:
    _fed(h)
    h.append("y", None, key="k", state=7)
    _compacted(h)


@case(broken=("y/0 is compacted",))
def a_topic_of_sums_and_outputs_that_was_compacted_is_a_gap(h: History) -> None:
    h.expects = "xy"
    h.feed(1)
    h.expect_amount(0, "k", 0)
    h.transact(0, to="xy")
    _compacted(h)
