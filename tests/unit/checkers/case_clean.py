"""Correct runs, in which no checker finds anything."""

from cases import case

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS


@case()
def a_plain_history_is_clean(h: History) -> None:
    h.expects = "xy"
    h.feed(3)
    h.transact(0, to="xy")
    h.transact(1, 2, to="xy")


@case()
def two_rounds_with_an_abort_and_a_retry_are_clean(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail")
    h.transact(0)
    h.transact(1, worker="v", pid=2)


@case()
def repeated_markers_and_markers_without_data_are_clean(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append_marker("x", 1, "commit")
    h.append_marker("x", 1, "commit", epoch=1)
    h.log_transaction(1, ["x"], epoch=1)
    h.append_marker("y", 1, "abort", epoch=1)
    h.append_marker("x", 1, "abort", epoch=1)
    h.log_transaction(1, ["x", "y"], "Abort", epoch=1)


@case()
def an_info_with_committed_records_counts_as_committed(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit")


@case()
def an_info_with_aborted_records_counts_as_aborted(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.transact(0)


@case()
def offset_only_output_only_and_empty_transactions_are_clean(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op()
    h.commit_offset(1, op, 1)
    h.append_marker(OFFSETS, 1, "commit")
    h.log_transaction(1, [OFFSETS])
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 1, "next": 1})
    alone = h.op()
    h.send(alone, "y", h.append("y", f"{alone.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")
    h.log_transaction(1, ["y"])
    h.op()
