"""Sums: of several groups and partitions, and with inputs that were aborted."""

from case_groups import takes_in_another_group
from cases import case
from histories import History


def _fed(h: History) -> None:
    """Inputs 0 and 1 add 3 and 4 to k, and the group has taken both."""
    h.feed(2)
    h.adds(0, "k", 3)
    h.adds(1, "k", 4)
    h.take(0, 1)


@case()
def a_sum_is_measured_by_the_offset_of_its_own_group(h: History) -> None:
    _fed(h)
    takes_in_another_group(h, 0, 1)
    h.put("y", None, key="k", state=7)


@case(options={"inputs": "ab"})
def a_sum_is_measured_by_the_offset_of_the_partition_of_its_inputs(h: History) -> None:
    _fed(h)
    h.feed(1, "b")
    h.take(0, source="b")
    h.put("y", None, key="k", state=7)


@case()
def an_aborted_input_adds_nothing(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.feed(1)
    for at, amount in ((0, 3), (1, 99), (3, 4)):
        h.adds(at, "k", amount)
    h.take(0, 3)
    h.put("y", None, key="k", state=7)


@case(options={"outputs": "xyz"})
def a_key_in_two_partitions_has_no_last_sum(h: History) -> None:
    _fed(h)
    h.put("y", None, key="k", state=3)
    h.put("z", None, key="k", state=4)
    h.alter("partitions", lambda row: row | {"topic": "y", "partition": 1} if row["topic"] == "z" else row)


@case(options={"log": False}, aggregate_mismatch=1)
def without_logs_the_last_sum_that_was_read_counts(h: History) -> None:
    _fed(h)
    h.put("y", None, key="k", state=7)
    h.put("y", None, key="k", state=4)


@case(options={"log": False})
def without_logs_a_right_sum_is_right(h: History) -> None:
    _fed(h)
    h.put("y", None, key="k", state=7)
