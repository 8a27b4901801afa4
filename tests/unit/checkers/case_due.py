"""Outputs that no input leads to, and the number of expected outputs."""

from cases import case

from tests.support.histories import History


@case(phantom=1, examples={"phantom": {"why": "its input must not lead to it", "slot": "y"}})
def an_output_in_an_output_name_that_is_not_due_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy")


@case(phantom=1)
def an_output_of_an_input_without_expected_outputs_is_a_phantom(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)


@case()
def a_filter_that_passes_over_an_input_is_right(h: History) -> None:
    h.feed(2)
    h.transact(0, 1, output_inputs=[0])
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)


@case()
def an_aborted_output_that_is_not_due_is_none(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", outcome="fail")
    h.transact(0, worker="v", pid=2)


@case()
def a_sum_need_not_name_an_input(h: History) -> None:
    h.feed(1)
    h.expect_amount(0, "k", 1)
    h.transact(0, to="x")
    op = h.op()
    h.send(
        op,
        "y",
        h.append("y", f"{op.name}:0", 1, output_name="y", inputs=[("a", 0)], digest=7, key="k", state=1),
        inputs=[0],
        output_name="y",
    )
    h.append_marker("y", 1, "commit")
    h.log_transaction(1, ["y"])


@case(broken=("the table expected holds 1 row for the inputs of a/0, and the final reader wrote 2",))
def expectations_that_are_gone_are_a_gap(h: History) -> None:
    h.feed(2)
    h.transact(0, 1)
    h.alter("expected", lambda row: None if row["offset"] == 1 else row)
