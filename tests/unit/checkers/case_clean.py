"""Correct runs, in which no checker finds anything."""

from cases import case

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS


@case()
def a_plain_history_is_clean(h: History) -> None:
    h.expects = "xy"
    h.feed(3)
    h.take(0, gives="xy")
    h.take(1, 2, gives="xy")


@case()
def two_rounds_with_an_abort_and_a_retry_are_clean(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail")
    h.take(0)
    h.take(1, worker="v", pid=2)


@case()
def repeated_markers_and_markers_without_data_are_clean(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.mark("x", 1, "commit")
    h.mark("x", 1, "commit", epoch=1)
    h.complete(1, ["x"], epoch=1)
    h.mark("y", 1, "abort", epoch=1)
    h.mark("x", 1, "abort", epoch=1)
    h.complete(1, ["x", "y"], "Abort", epoch=1)


@case()
def an_info_whose_records_are_committed_is_settled_as_committed(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit")


@case()
def an_info_whose_records_are_aborted_is_settled_as_aborted(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="abort")
    h.take(0)


@case()
def offset_only_output_only_and_empty_transactions_are_clean(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op()
    h.offset(1, op, 1)
    h.mark(OFFSETS, 1, "commit")
    h.complete(1, [OFFSETS])
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 1, "next": 1})
    alone = h.op()
    h.send(alone, "y", h.put("y", f"{alone.name}:0", 1, digest=7))
    h.mark("y", 1, "commit")
    h.complete(1, ["y"])
    h.op()
