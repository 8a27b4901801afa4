"""An outbox: rows that are marked as done one by one, a relay that may repeat, and a consumer that may not.

`a` is the table of inputs, `x` the topic of events, `y` the consumer's table: the relay `s` makes of each row of `a` a
record of `x`, and the consumer `c` of that record a row of `y`, which names the row of `a`.
"""

from collections.abc import Sequence

from cases import case

from harness.history import Positions
from harness.promises import SEGMENTS, Promises
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, Row

OPTIONS = {"inputs": "ax", "outputs": "y", "expects": "xy"}


def publish(h: History, *rows: int) -> None:
    """A relay takes rows, in this order, and publishes them in a transaction that commits."""
    taken = h.op("w", "poll")
    for at in rows:
        h.poll(taken, "a", at, h.entries["a"][at]["value"])
    op = h.op("w")
    for at in rows:
        value = f"{op.name}:{len(op.values)}"
        place = h.put("x", value, 1, slot="x", inputs=[("a", at)], digest=7)
        h.send(op, "x", place, inputs=[at], slot="x")
    h.mark("x", 1, "commit")
    h.complete(1, ["x"])


def apply(h: History, events: Sequence[int], *rows: int) -> None:
    """A consumer is given events, writes these rows, and moves its group's offset behind them."""
    given = h.op("v", "poll", stage="c")
    for at in events:
        h.poll(given, "x", at, h.entries["x"][at]["value"])
    op = h.op("v", "send", stage="c")
    for at in rows:
        h.send(op, "y", None, inputs=[at], slot="y")
        h.rows["sends"][-1]["acked"] = True
        h.put("y", op.values[-1], slot="y", inputs=[("a", at)], digest=7)
    moved, after = h.op("v", "commit-offsets", stage="c"), max(events) + 1
    h.rows["claims"].append(
        {"op": moved.op, "group": "g", "tp": h.tp["x"], "first": min(events), "next": after}
    )
    h.offset(after, moved, source="x")


def outbox(h: History, *, pending: Sequence[int] = ()) -> None:
    """The stages as they are, and what is stated of the rows that are done."""

    def stage(row: Row) -> Row:
        if row["in_topic"] == "x":
            return row | {"stage": "c"}
        return row | {"group": None, "positions": Positions.EACH.value, "guarantee": "at-least-once"}

    def expected(row: Row) -> Row | None:
        if row["offset"] in pending:
            return None
        return row | ({"group": None} if row["topic"] == "x" else {"stage": "c", "via": "x"})

    h.alter("stages", stage)
    h.alter("expected", expected)
    h.alter("ops", lambda row: row | {"group": None} if row["stage"] == "s" else row)
    h.alter("assignments", lambda row: None if row["tp"] == h.tp["a"] else row | {"journal": "v"})
    h.promises = Promises(
        journaled=("s", "c"),
        witness=SEGMENTS,
        internal_logs=(OFFSETS, TRANSACTIONS),
        tables=("a", "y"),
    )
    for table in ("replicas", "batches"):
        h.alter(table, lambda row: None if row["tp"] in (h.tp["a"], h.tp["y"]) else row)


@case(options=OPTIONS)
def rows_that_are_published_and_applied_once_are_right_in_any_order(h: History) -> None:
    h.feed(3)
    publish(h, 0, 2)
    publish(h, 1)
    apply(h, [0, 1], 0, 2)
    apply(h, [3], 1)
    outbox(h)


@case(options=OPTIONS, reprocessed_input=1)
def what_a_relay_repeats_is_permitted_by_its_own_guarantee(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1)
    outbox(h)
    h.permitted = frozenset({"reprocessed-input"})


@case(options=OPTIONS, reprocessed_input=1)
def what_the_consumer_repeats_is_not(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1, 1)
    outbox(h)


@case(options=OPTIONS, reprocessed_input=1)
def what_is_repeated_where_no_stage_promises_less_is_not(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    publish(h, 0)
    apply(h, [0, 2], 0)
    outbox(h)
    h.alter("stages", lambda row: row | {"guarantee": None})


@case(options=OPTIONS, lost_input=1, tells={"lost-input": {"slot": "x"}})
def a_row_that_is_done_and_was_never_published_is_lost_once(h: History) -> None:
    h.feed(2)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h)


@case(options=OPTIONS)
def a_row_that_is_not_done_yet_is_not_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h, pending=[1])


@case(options=OPTIONS, lost_input=1, tells={"lost-input": {"slot": "y"}})
def an_event_that_the_group_went_past_and_that_was_not_applied_is_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    apply(h, [0, 1], 0)
    outbox(h)


@case(options=OPTIONS)
def an_event_that_the_group_did_not_come_to_is_not_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    apply(h, [0], 0)
    outbox(h)


@case(options=OPTIONS, lost_write=1, unseen=1)
def a_row_that_was_told_to_be_committed_and_is_gone_is_lost(h: History) -> None:
    h.feed(3)
    publish(h, 0, 2)
    apply(h, [0, 1], 0, 2)
    outbox(h, pending=[1])
    for table in ("records", "polls"):
        h.alter(table, lambda row: None if row["tp"] == h.tp["a"] and row["offset"] == 1 else row)


@case(options=OPTIONS, not_checked=("lost-input",), broken=("a place of its own",))
def a_stage_that_marks_nothing_and_has_no_group_cannot_be_judged(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h)
    h.alter("stages", lambda row: row | {"positions": None})
