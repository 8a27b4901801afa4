"""The decisions of the transaction log, compared with the markers and with the answers to workers."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row

LACKS = "the transaction log lacks transactions that have markers in "


def _uncompacted(h: History) -> None:
    h.alter("partitions", lambda row: row | {"compacted": False})


def _log_says(h: History, end: str, pid: int = 1) -> None:
    """The transaction log says that each transaction of the producer ended with `end`."""
    other = {"Commit": "Abort", "Abort": "Commit"}[end]

    def bend(row: Row) -> Row:
        return row | {"state": row["state"].replace(other, end)} if row["producer_id"] == pid else row

    h.alter("transactions", bend)


@case(torn_transaction=1, examples={"torn-transaction": {"decided": "abort", "fates": ["commit"]}})
def markers_that_commit_what_the_transaction_log_aborted_are_torn(h: History) -> None:
    plain(h)
    _log_says(h, "Abort")


@case(torn_transaction=1)
def markers_that_commit_what_the_transaction_log_aborted_are_torn_of_an_info_too(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info")
    _log_says(h, "Abort")


@case(torn_transaction=1)
def markers_that_abort_what_the_transaction_log_committed_are_torn(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.transact(0, worker="v", pid=2)
    _log_says(h, "Commit")


@case()
def a_marker_that_a_new_coordinator_repeats_changes_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.append_marker("x", 1, "commit")
    h.transact(1)


@case(broken=(LACKS + "x/0: 1 marker of 1 producer (for example producer id 1)",))
def a_producer_that_the_transaction_log_does_not_know_is_a_gap(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, worker="v", pid=2)
    log = h.tp["__transaction_state"]
    left = {"log_end": 3, "high_watermark": 3}
    h.alter(
        "transactions",
        lambda row: row | {"log_offset": row["log_offset"] - 3} if row["producer_id"] == 2 else None,
    )
    h.alter("replicas", lambda row: row | left if row["tp"] == log else row)
    h.alter("batches", lambda row: None if row["tp"] == log and row["base_offset"] >= 3 else row)


@case(broken=(LACKS + "x/0: 1 marker",))
def the_last_transaction_that_the_transaction_log_lacks_is_a_gap(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    log = h.tp["__transaction_state"]
    h.alter("transactions", lambda row: None if row["log_offset"] >= 3 else row)
    h.alter("replicas", lambda row: row | {"log_end": 3, "high_watermark": 3} if row["tp"] == log else row)
    h.alter("batches", lambda row: None if row["tp"] == log and row["base_offset"] >= 3 else row)


@case(broken=(LACKS + "x/0: 1 marker",))
def a_partition_with_a_marker_that_its_transaction_does_not_list_is_a_gap(h: History) -> None:
    plain(h)
    x = h.tp["x"]
    h.alter("transactions", lambda row: row | {"tps": [tp for tp in row["tps"] if tp != x]})


@case()
def the_markers_of_a_prepared_transaction_are_known(h: History) -> None:
    plain(h)
    h.append("y", None, 7)
    h.append_marker("y", 7, "abort")
    h.log_state(7, "Ongoing", ["y"])
    h.log_state(7, "PrepareAbort", ["y"])


def _in_two(h: History, *, between: bool) -> None:
    """A transaction of two inputs; `between`: a marker is written between its outputs."""
    h.feed(2)
    op = h.op()
    for at in (0, 1):
        h.poll(op, "a", at, f"f:{at}:0")
        offset = h.append("x", f"{op.name}:{at}", 1, output_name="x", inputs=[("a", at)], digest=7)
        h.send(op, "x", offset, inputs=[at], output_name="x")
        if at == 0 and between:
            h.append_marker("x", 1, "commit")
            h.log_transaction(1, ["x"])
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 0, "next": 2})
    h.commit_offset(2, op, 1)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])


@case(torn_transaction=1, examples={"torn-transaction": {"why": "a marker is between its records"}})
def a_transaction_with_a_commit_marker_between_its_records_is_torn(h: History) -> None:
    _in_two(h, between=True)


@case()
def a_transaction_with_one_marker_above_its_records_is_whole(h: History) -> None:
    _in_two(h, between=False)


@case(torn_transaction=1, examples={"torn-transaction": {"completions": [{"offset": 2}, {"offset": 5}]}})
def a_transaction_that_is_two_in_the_transaction_log_is_torn(h: History) -> None:
    h.feed(1)
    op = h.op()
    h.poll(op, "a", 0, "f:0:0")
    offset = h.append("x", f"{op.name}:0", 1, output_name="x", inputs=[("a", 0)], digest=7)
    h.send(op, "x", offset, inputs=[0], output_name="x")
    h.append_marker("x", 1, "commit")
    h.log_transaction(1, ["x"])
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 0, "next": 1})
    h.commit_offset(1, op, 1)
    h.append_marker(OFFSETS, 1, "commit")
    h.log_transaction(1, [OFFSETS])


@case(broken=("several operations wrote into one transaction of the transaction log: 1 transaction",))
def a_transaction_of_the_log_that_holds_two_operations_is_a_gap(h: History) -> None:
    h.feed(2)
    for at in (0, 1):
        op = h.op()
        h.poll(op, "a", at, f"f:{at}:0")
        offset = h.append("x", f"{op.name}:0", 1, output_name="x", inputs=[("a", at)], digest=7)
        h.send(op, "x", offset, inputs=[at], output_name="x")
        h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": at, "next": at + 1})
        h.commit_offset(at + 1, op, 1)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])


@case(
    group_offset_regression=1,
    examples={"group-offset-regression": {"record": {"op": 2}, "record_before": {"op": 3}}},
)
def a_late_repeated_offset_commit_in_the_next_transaction_is_no_gap(h: History) -> None:
    h.feed(2)
    first = h.transact(0)
    op = h.op()
    h.poll(op, "a", 1, "f:1:0")
    offset = h.append("x", f"{op.name}:0", 1, output_name="x", inputs=[("a", 1)], digest=7)
    h.send(op, "x", offset, inputs=[1], output_name="x")
    h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp["a"], "first": 1, "next": 2})
    h.commit_offset(2, op, 1)
    h.commit_offset(1, first, 1)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])


def _markers_earlier(h: History, by_ms: int) -> None:
    h.alter(
        "batches",
        lambda row: row | {"max_timestamp_ms": row["max_timestamp_ms"] - by_ms} if row["control"] else row,
    )


@case(ghost_commit=1)
def a_marker_older_than_the_request_to_commit_is_a_ghost_commit(h: History) -> None:
    plain(h)
    _markers_earlier(h, 3_000)


@case(unsettled=0, ghost_commit=1)
def a_marker_older_than_the_request_is_a_ghost_commit_of_an_info_too(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info")
    _markers_earlier(h, 3_000)


@case()
def a_marker_older_by_less_than_the_clock_difference_is_no_finding(h: History) -> None:
    plain(h)
    _markers_earlier(h, 40)


@case(not_checked=("dirty-read by time",))
def without_one_clock_no_marker_is_too_old(h: History) -> None:
    plain(h)
    _markers_earlier(h, 3_000)
    h.clock_drift_ms = None


@case(
    epoch_regression=1, examples={"epoch-regression": {"coordinator_epoch": 3, "coordinator_epoch_before": 9}}
)
def a_marker_of_a_lower_coordinator_epoch_is_a_regression(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    x = h.tp["x"]

    def bend(row: Row) -> Row:
        here = row["control"] and row["tp"] == x
        return row | {"coordinator_epoch": 9 if row["base_offset"] < 2 else 3} if here else row

    h.alter("batches", bend)


def _two_inputs(h: History, *committed: str) -> None:
    """A transaction that claims an input of a and one of b, and commits the offsets of `committed`."""
    h.feed(1)
    h.feed(1, "b")
    op = h.op()
    for source in "ab":
        h.poll(op, source, 0, h.entries[source][0]["value"])
        offset = h.append(
            "x", f"{op.name}:{len(op.values)}", 1, output_name="x", inputs=[(source, 0)], digest=7
        )
        h.send(op, "x", offset, inputs=[0], output_name="x", source=source)
        h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp[source], "first": 0, "next": 1})
    for source in committed:
        h.commit_offset(1, op, 1, source=source)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])
    _uncompacted(h)


@case(options={"inputs": "ab"}, lost_commit=1, examples={"lost-commit": {"gone_offsets": [{"topic": "b"}]}})
def one_of_two_offsets_gone_is_a_lost_commit(h: History) -> None:
    _two_inputs(h, "a")


@case(options={"inputs": "ab"})
def both_of_two_offsets_are_all(h: History) -> None:
    _two_inputs(h, "a", "b")
