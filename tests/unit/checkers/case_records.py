"""Single records that are lost, duplicated or never delivered."""

from cases import case, plain

from tests.support.histories import History

# lost-write


@case(lost_write=1, unseen=1, because={"unseen": "lost-write"})
def an_acknowledged_record_that_the_final_reader_skips_is_lost(h: History) -> None:
    h.expects = "xy"
    h.feed(2)
    op = h.transact(0, to="xy")
    h.transact(1, to="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


@case()
def an_aborted_record_that_the_final_reader_skips_is_not_lost(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.transact(0)


@case()
def an_acknowledged_record_with_unknown_offset_is_where_it_is_found(h: History) -> None:
    h.feed(2)
    op = h.transact(0, 1)
    h.alter("sends", lambda row: row | {"offset": None} if row["value"] in op.values else row)


@case()
def an_info_write_without_a_record_is_not_lost(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.send(h.op(outcome="info"), "x")


@case(lost_write=1, unseen=1, inconsistent_offsets=1, nonmonotonic_send=1)
def an_acknowledged_offset_with_another_value_is_a_lost_write(h: History) -> None:
    h.feed(1)
    h.transact(0)
    first, second = h.op("f", "send"), h.op("f", "send")
    at = h.append("y", f"{second.name}:0", digest=7)
    h.send(first, "y", at)
    h.send(second, "y", at)


@case(lost_write=1, vanished=1, broken=("records that the final read-uncommitted reader did not receive",))
def an_output_taken_from_all_final_reads_is_lost_where_the_log_holds_it(h: History) -> None:
    h.feed(2)
    op = h.transact(0)
    h.transact(1)
    h.observe("x", 0)
    h.alter("polls", lambda row: None if row["value"] == op.values[0] and row["role"] == "final" else row)
    h.alter("records", lambda row: None if row["value"] == op.values[0] else row)


@case(lost_write=1, lost_commit=1, unseen=1, because={"lost-write": "lost-commit"})
def an_acknowledged_offset_beyond_the_end_of_the_log_is_a_lost_write(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op()
    h.send(op, "y", 9, value="w:1:0")


@case(broken=("did not come to the end of x/0",))
def a_reader_that_stopped_before_a_record_proves_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0)
    op = h.transact(1)
    h.alter("polls", lambda row: None if row["value"] == op.values[0] else row)
    h.alter(
        "ends",
        lambda row: row | {"next": 1, "sentinel_offset": None} if _of(h, row, "x", "read_committed") else row,
    )


def _of(h: History, row: dict[str, object], topic: str, isolation: str) -> bool:
    return row["tp"] == h.tp[topic] and row["isolation"] == isolation


# duplicate


@case(duplicate=1)
def one_value_at_two_offsets_is_a_duplicate(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.append("x", op.values[0], output_name="x", inputs=[("a", 0)], digest=7)


@case(duplicate=1)
def an_aborted_repeat_of_a_committed_record_is_a_duplicate(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.append("x", op.values[0], 1, output_name="x", inputs=[("a", 0)], digest=7)
    h.append_marker("x", 1, "abort")
    h.log_transaction(1, ["x"], "Abort")


@case()
def an_input_that_the_feeder_repeated_is_no_duplicate(h: History) -> None:
    h.feed(1)
    h.append("a", "f:0:0", digest=7)
    h.expect(1)
    h.transact(0, 1)


@case()
def two_attempts_of_which_one_was_aborted_are_no_duplicate(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.transact(0)


# unseen


def _acknowledged_nowhere(h: History, many: int = 1, tp: int | None = None) -> list[str]:
    """Return the values of records acknowledged without an offset, and without a partition if `tp` is None."""
    op = h.op("f", "send")
    values = [h.send(op, "y") for _ in range(many)]
    h.alter("sends", lambda row: row | {"acked": True, "tp": tp} if row["op"] == op.op else row)
    return values


@case(unseen=1)
def an_acknowledged_record_without_offset_or_read_is_unseen(h: History) -> None:
    h.feed(1)
    h.transact(0)
    _acknowledged_nowhere(h)


@case()
def a_record_without_offset_that_an_observer_read_is_not_unseen(h: History) -> None:
    h.feed(1)
    h.transact(0)
    (value,) = _acknowledged_nowhere(h)
    h.poll(h.op("o", "poll"), "y", 5, value, role="observer")


@case(broken=("the log of y/0 begins at offset 1",))
def a_record_that_may_have_stood_below_the_start_of_the_log_is_not_unseen(h: History) -> None:
    """The offset of one record is not known, and the partition of another one is not known."""
    plain(h)
    for tp in (None, h.tp["y"]):
        _acknowledged_nowhere(h, tp=tp)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == h.tp["y"] else row)


@case(unseen=2)
def a_record_with_unknown_offset_and_no_read_is_unseen(h: History) -> None:
    plain(h)
    for tp in (None, h.tp["y"]):
        _acknowledged_nowhere(h, tp=tp)


@case(unseen=1)
def of_two_records_with_unknown_offsets_the_unread_one_is_unseen(h: History) -> None:
    h.feed(1)
    h.transact(0)
    seen, _ = _acknowledged_nowhere(h, 2)
    h.poll(h.op("o", "poll"), "y", 5, seen, role="observer")


@case(options={"log": False}, broken=("y/0 is compacted",))
def a_record_with_unknown_offset_may_be_compacted(h: History) -> None:
    h.feed(1)
    h.transact(0)
    _acknowledged_nowhere(h)
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})


@case(
    lost_write=1,
    vanished=1,
    because={"vanished": "lost-write"},
    broken=("one reader received 1 record of y/0 without the value",),
)
def a_record_read_without_its_value_is_not_unseen(h: History) -> None:
    h.expects = "xy"
    h.feed(2)
    op = h.transact(0, to="xy")
    h.transact(1, to="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)
    h.poll(h.op("o", "poll"), "y", 0, None, role="observer")


@case()
def an_unread_record_of_an_info_is_not_unseen(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.send(h.op("f", "send", "info"), "y")


@case(hanging_transaction=1, broken=("did not come to the end of y/1",), options={"outputs": "xyz"})
def a_record_that_may_be_above_an_open_transaction_is_not_unseen(
    h: History,
) -> None:
    h.topic_partitions["z"] = "y", 1
    h.feed(1)
    h.transact(0)
    h.transact(
        to="z", output_inputs=[0], outcome="fail", fate="open", state="CompleteAbort", worker="v", pid=2
    )
    _acknowledged_nowhere(h)


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_record_above_a_hanging_transaction_is_not_unseen(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.transact(0, worker="v", pid=2)
    h.transact(1, worker="v", pid=2)
