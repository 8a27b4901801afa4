"""Output names: inputs with several expected outputs, in one topic or in two."""

from cases import case

from tests.support.histories import History, Op


def _owes_q(h: History) -> None:
    """Input 0 must lead to an output with the name q in topic x, and to one with the name x."""
    h.feed(1)
    h.expect(0)
    h.rows["expected"][-1]["output_name"] = "q"


def _second(h: History, op: Op, **change: object) -> None:
    """Change the second output of an operation, as it was sent and as it is in the log."""
    for table in ("sends", "records"):
        h.alter(table, lambda row: row | change if row["value"] == op.values[1] else row)


# reprocessed-input


@case()
def outputs_in_two_output_names_of_one_topic_are_none_too_many(h: History) -> None:
    _owes_q(h)
    _second(h, h.transact(0, to="xx"), output_name="q")


@case(reprocessed_input=1, overlapping_commit=1)
def an_output_name_is_not_owed_more_because_of_another_one(h: History) -> None:
    _owes_q(h)
    _second(h, h.transact(0, to="xx"), output_name="q")
    h.transact(0, worker="v", pid=2)


@case()
def two_outputs_that_one_output_name_owes_are_none_too_many(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    _second(h, h.transact(0, to="xx"), digest=8)


# lost-input


@case(lost_input=1)
def of_two_outputs_that_one_output_name_owes_one_is_missing(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    h.transact(0)


@case(lost_input=1)
def of_three_outputs_that_one_output_name_owes_one_is_missing(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    h.expect(0, digest=9)
    _second(h, h.transact(0, to="xx"), digest=8)


@case(lost_input=2)
def of_two_outputs_that_one_output_name_owes_both_are_missing(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    h.transact(0, to="")


@case(lost_input=1, options={"expects": "xx"})
def of_two_equal_outputs_that_an_input_owes_one_is_missing(h: History) -> None:
    h.feed(1)
    h.transact(0)


@case(options={"expects": "xx"})
def of_two_equal_outputs_that_an_input_owes_none_is_missing(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xx")


@case(lost_input=1)
def a_second_output_of_one_content_is_not_the_output_of_another_content(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    h.transact(0, to="xx")


@case(corrupt=1)
def an_output_of_unknown_content_stands_for_the_missing_one(h: History) -> None:
    h.feed(1)
    h.expect(0, digest=8)
    _second(h, h.transact(0, to="xx"), digest=9)


@case(lost_input=1)
def without_digests_the_number_of_outputs_decides(h: History) -> None:
    h.feed(1)
    h.expect(0)
    h.alter_expected(lambda row: row | {"digest": None})
    h.transact(0)


@case(lost_input=1, examples={"lost-input": {"slot": "q", "operations": []}})
def an_output_with_another_output_name_is_not_the_expected_one(h: History) -> None:
    _owes_q(h)
    h.transact(0)


@case(
    lost_input=1,
    examples={"lost-input": {"slot": "x", "operations": [{"op": 2}], "passed_by": {"op": 3, "committed": 2}}},
)
def a_lost_input_names_the_operations_that_failed(h: History) -> None:
    h.feed(2)
    h.transact(0, to="xy", outcome="fail")
    h.transact(1)


# corrupt


@case(corrupt=1)
def an_output_with_the_content_of_another_output_name_is_corrupt(h: History) -> None:
    _owes_q(h)
    _second(h, h.transact(0, to="xx"), output_name="q")
    h.alter_expected(lambda row: row | {"digest": 8} if row["output_name"] == "x" else row)
