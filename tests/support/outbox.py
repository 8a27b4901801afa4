"""Small histories of an outbox: a table of inputs whose rows are marked one by one, a relay, and a consumer.

`a` is the table of inputs, `x` the topic of events, and `y` the consumer's table. The relay `s` sends a record to `x`
for each row of `a`. The consumer `c` writes a row to `y` for each record of `x`. That row names the row of `a`.
"""

from collections.abc import Sequence

from harness.model.promises import SEGMENTS, Promises
from harness.model.vocabulary import OffsetTracking
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, Row

OPTIONS = {"inputs": "ax", "outputs": "y", "expects": "xy"}


def publish(h: History, *rows: int, committed: bool = True) -> None:
    """Have the relay take rows, in this order, and publish them in one transaction."""
    poll = h.op("w", "poll")
    for at in rows:
        h.poll(poll, "a", at, h.entries["a"][at]["value"])
    op = h.op("w", outcome="ok" if committed else "fail")
    for at in rows:
        value = f"{op.name}:{len(op.values)}"
        offset = h.append("x", value, 1, output_name="x", inputs=[("a", at)], digest=7)
        h.send(op, "x", offset, inputs=[at], output_name="x")
    h.append_marker("x", 1, "commit" if committed else "abort")
    h.log_transaction(1, ["x"], "Commit" if committed else "Abort")


def apply(h: History, events: Sequence[int], *rows: int) -> None:
    """Have the consumer poll events, write an effect of each of `rows`, and commit its offset after the events."""
    poll = h.op("v", "poll", stage="c")
    for at in events:
        h.poll(poll, "x", at, h.entries["x"][at]["value"])
    op = h.op("v", "send", stage="c")
    for at in rows:
        h.send(op, "y", None, inputs=[at], output_name="y")
        h.rows["sends"][-1]["acked"] = True
        h.append("y", op.values[-1], output_name="y", inputs=[("a", at)], digest=7)
    commit, after = h.op("v", "commit-offsets", stage="c"), max(events) + 1
    h.rows["claims"].append(
        {"op": commit.op, "group": "g", "tp": h.tp["x"], "first": min(events), "next": after}
    )
    h.commit_offset(after, commit, source="x")


def outbox(h: History, *, pending: Sequence[int] = (), relay_may_repeat: bool = True) -> None:
    """Turn the stages of a history into a relay and a consumer.

    Args:
        pending: Rows that the relay has not yet marked; their outputs are not expected.
        relay_may_repeat: Give the relay the guarantee at-least-once.
    """
    guarantee = "at-least-once" if relay_may_repeat else None

    def stage(row: Row) -> Row:
        if row["in_topic"] == "x":
            return row | {"stage": "c"}
        return row | {"group": None, "positions": OffsetTracking.EACH.value, "guarantee": guarantee}

    def expected(row: Row) -> Row | None:
        if row["offset"] in pending:
            return None
        return row | ({"group": None} if row["topic"] == "x" else {"stage": "c", "intermediate_topic": "x"})

    h.alter("stages", stage)
    h.alter_expected(expected)
    h.alter("ops", lambda row: row | {"group": None} if row["stage"] == "s" else row)

    def assignment(row: Row) -> Row | None:
        """The relay has no group, so only the consumer is assigned partitions, if it has begun."""
        of_relay = row["tp"] == h.tp["a"]
        if "v" in h.journals:
            return None if of_relay else row | {"journal": "v"}
        return row | {"journal": "w", "group": None} if of_relay and "w" in h.journals else None

    h.alter("assignments", assignment)
    h.promises = Promises(
        journaled=("s", "c"),
        witness=SEGMENTS,
        internal_logs=(OFFSETS, TRANSACTIONS),
        tables=("a", "y"),
    )
    for table in ("replicas", "batches"):
        h.alter(table, lambda row: None if row["tp"] in (h.tp["a"], h.tp["y"]) else row)
