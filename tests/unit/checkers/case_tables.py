"""Tables of a database are in no broker log. Their rows are checked like committed outputs."""

from cases import case

from harness.model.promises import SEGMENTS, Promises
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS

OPTIONS = {"expects": "y"}


def apply(h: History, *inputs: int, outcome: str = "ok", acked: bool = True) -> None:
    """A worker writes a row of y for each input. A rolled back transaction leaves no row."""
    op = h.op("w", "send", outcome)
    for at in inputs:
        h.send(op, "y", None, inputs=[at], output_name="y")
        h.rows["sends"][-1]["acked"] = acked
        if outcome != "fail":
            h.append("y", op.values[-1], output_name="y", inputs=[("a", at)], digest=7)


def store(h: History, *, promised: bool = True) -> None:
    """y is a table of a database, so no broker has it."""
    h.promises = Promises(
        journaled=("s",),
        witness=SEGMENTS,
        internal_logs=(OFFSETS, TRANSACTIONS),
        tables=("y",) if promised else (),
    )
    for table in ("replicas", "batches"):
        h.alter(table, lambda row: None if row["tp"] == h.tp["y"] else row)


@case(options=OPTIONS)
def every_input_that_is_applied_once_is_right(h: History) -> None:
    h.feed(2)
    apply(h, 0, 1)
    h.transact(0, 1, to="")
    store(h)


@case(options=OPTIONS, reprocessed_input=1)
def an_effect_that_is_repeated_is_found(h: History) -> None:
    h.feed(2)
    apply(h, 0, 1)
    apply(h, 1)
    h.transact(0, 1, to="")
    store(h)


@case(options=OPTIONS)
def an_effect_that_was_rolled_back_is_none(h: History) -> None:
    h.feed(1)
    apply(h, 0, outcome="fail", acked=False)
    apply(h, 0)
    h.transact(0, to="")
    store(h)


@case(options=OPTIONS, lost_input=1)
def an_input_that_was_passed_and_never_applied_is_lost(h: History) -> None:
    h.feed(2)
    apply(h, 0)
    h.transact(0, 1, to="")
    store(h)


@case(options=OPTIONS, broken=("the leader's log of y/0 is missing",))
def a_topic_is_no_table_unless_the_run_says_so(h: History) -> None:
    h.feed(1)
    apply(h, 0)
    h.transact(0, to="")
    store(h, promised=False)


@case(options={"expects": "x"})
def rows_of_a_table_without_expectations_need_no_input(h: History) -> None:
    h.feed(1)
    apply(h, 0)
    h.transact(0)
    store(h)
