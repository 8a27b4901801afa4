"""Several groups and partitions, whose offsets, claims and ranges must not be mixed."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row


def takes_in_another_group(h: History, first: int, after: int) -> None:
    """A worker of stage t in group k has processed these inputs and commits its offset."""
    op = h.op("u", stage="t", group="k")
    for at in range(first, after):
        h.poll(op, "a", at, h.entries["a"][at]["value"])
    h.rows["claims"].append({"op": op.op, "group": "k", "tp": h.tp["a"], "first": first, "next": after})
    h.commit_offset(after, op, 5)
    h.rows["offsets"][-1]["group"] = "k"
    h.append_marker(OFFSETS, 5, "commit")


# group-offset-regression


@case()
def an_offset_below_that_of_another_group_is_no_regression(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    takes_in_another_group(h, 0, 1)


@case(options={"inputs": "ab"})
def an_offset_below_that_of_another_partition_is_no_regression(h: History) -> None:
    h.feed(2)
    h.feed(1, "b")
    h.transact(0, 1)
    h.transact(0, source="b")


# offset-output-mismatch


@case(options={"inputs": "ab"})
def an_operation_may_commit_the_offsets_of_two_partitions(h: History) -> None:
    h.feed(1)
    h.feed(1, "b")
    op = h.op()
    for source in "ab":
        h.poll(op, source, 0, h.entries[source][0]["value"])
        value = f"{op.name}:{len(op.values)}"
        offset = h.append("x", value, 1, output_name="x", inputs=[(source, 0)], digest=7)
        h.send(op, "x", offset, inputs=[0], output_name="x", source=source)
        h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp[source], "first": 0, "next": 1})
        h.commit_offset(1, op, 1, source=source)
    h.append_marker("x", 1, "commit")
    h.append_marker(OFFSETS, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])


@case()
def an_aborted_offset_that_was_not_claimed_is_no_mismatch(h: History) -> None:
    h.feed(2)
    h.transact(0)
    op = h.transact(1, outcome="fail")
    h.transact(1)
    h.alter("offsets", lambda row: row | {"committed": 9} if row["op"] == op.op else row)


@case()
def an_aborted_input_may_be_claimed_without_output(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.expect(1)
    h.feed(1)
    h.transact(0, 3)


# reprocessed-input, of a filter


@case()
def an_input_of_a_filter_that_two_groups_claim_is_not_reprocessed(h: History) -> None:
    h.feed(2)
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)
    h.transact(0)
    h.transact(1, to="")
    takes_in_another_group(h, 1, 2)


@case(reprocessed_input=2, overlapping_commit=1)
def visible_inputs_of_two_committed_ranges_are_reprocessed(h: History) -> None:
    h.feed(2)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.feed(1)
    h.alter_expected(lambda row: row if row["offset"] == 0 else None)
    h.transact(0)
    h.transact(1, 4, to="")
    h.transact(1, 4, to="", poll=False)


# overlapping-commit


@case()
def an_empty_range_overlaps_nothing(h: History) -> None:
    h.feed(2)
    h.transact(to="", claim=(1, 1), worker="v", pid=2)
    h.transact(0, 1)


GROWN = {"inputs": "ab"}


def _grow(h: History) -> None:
    """The topic `a` gets a partition during the run: `b`, with two inputs."""
    h.topic_partitions["b"] = ("a", 1)
    h.growths = {"a": 1}
    plain(h)
    h.feed(2, "b")


def _begin_b(h: History, offset: int | None) -> None:
    """Worker w begins to read `b` at an offset, or does not read it."""

    def begin(row: Row) -> Row | None:
        if row["tp"] != h.tp["b"]:
            return row
        return None if offset is None else row | {"offset": offset}

    h.alter("assignments", begin)


@case(lost_input=2, options=GROWN, examples={"lost-input": {"passed_over": True}})
def inputs_in_an_added_partition_that_the_group_never_read_are_lost(h: History) -> None:
    _grow(h)
    _begin_b(h, None)
    h.passed_over = {"g": [("a", 1)]}


@case(options=GROWN)
def inputs_in_an_added_partition_that_the_group_had_no_time_to_read_are_not_lost(h: History) -> None:
    _grow(h)
    _begin_b(h, None)


@case(options=GROWN)
def a_group_that_stopped_at_the_start_of_an_added_partition_has_not_passed_it_over(h: History) -> None:
    _grow(h)
    h.passed_over = {"g": [("a", 1)]}


@case(lost_input=1, options=GROWN)
def a_group_that_begins_behind_the_start_of_an_added_partition_loses_inputs(h: History) -> None:
    _grow(h)
    _begin_b(h, 1)
    h.transact(1, source="b")


@case(options=GROWN)
def a_group_may_begin_behind_the_start_of_a_planned_partition(h: History) -> None:
    _grow(h)
    h.growths = {}
    _begin_b(h, 1)
    h.transact(1, source="b")
