"""An outbox in a few letters: rows that are marked as done one by one, a relay, and a consumer.

`a` is the table of inputs, `x` the topic of events, `y` the consumer's table: the relay `s` makes of each row of `a` a
record of `x`, and the consumer `c` of that record a row of `y`, which names the row of `a`.
"""

from collections.abc import Sequence

from harness.model.promises import SEGMENTS, Promises
from harness.model.vocabulary import OffsetTracking
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, Row

OPTIONS = {"inputs": "ax", "outputs": "y", "expects": "xy"}


def publish(h: History, *rows: int, committed: bool = True) -> None:
    """A relay takes rows, in this order, and publishes them in a transaction that commits, or aborts."""
    taken = h.op("w", "poll")
    for at in rows:
        h.poll(taken, "a", at, h.entries["a"][at]["value"])
    op = h.op("w", outcome="ok" if committed else "fail")
    for at in rows:
        value = f"{op.name}:{len(op.values)}"
        place = h.put("x", value, 1, output_name="x", inputs=[("a", at)], digest=7)
        h.send(op, "x", place, inputs=[at], output_name="x")
    h.mark("x", 1, "commit" if committed else "abort")
    h.complete(1, ["x"], "Commit" if committed else "Abort")


def apply(h: History, events: Sequence[int], *rows: int) -> None:
    """A consumer is given events, writes these rows, and moves its group's offset behind them."""
    given = h.op("v", "poll", stage="c")
    for at in events:
        h.poll(given, "x", at, h.entries["x"][at]["value"])
    op = h.op("v", "send", stage="c")
    for at in rows:
        h.send(op, "y", None, inputs=[at], output_name="y")
        h.rows["sends"][-1]["acked"] = True
        h.put("y", op.values[-1], output_name="y", inputs=[("a", at)], digest=7)
    moved, after = h.op("v", "commit-offsets", stage="c"), max(events) + 1
    h.rows["claims"].append(
        {"op": moved.op, "group": "g", "tp": h.tp["x"], "first": min(events), "next": after}
    )
    h.offset(after, moved, source="x")


def outbox(h: History, *, pending: Sequence[int] = (), skips_refused_records: bool = True) -> None:
    """The stages as they are, and what is stated of the rows that are done. `lenient`: the relay may repeat."""
    promised = "at-least-once" if skips_refused_records else None

    def stage(row: Row) -> Row:
        if row["in_topic"] == "x":
            return row | {"stage": "c"}
        return row | {"group": None, "positions": OffsetTracking.EACH.value, "guarantee": promised}

    def expected(row: Row) -> Row | None:
        if row["offset"] in pending:
            return None
        return row | ({"group": None} if row["topic"] == "x" else {"stage": "c", "intermediate_topic": "x"})

    h.alter("stages", stage)
    h.owe(expected)
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
