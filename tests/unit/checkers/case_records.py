"""Single records: lost, doubled, unseen, corrupt, read too early, or made by nobody."""

from cases import case
from histories import WALL_MS, History

# lost-write


@case(lost_write=1, unseen=1, because={"unseen": "lost-write"})
def an_acknowledged_record_that_the_final_reader_skips_is_lost(h: History) -> None:
    h.feed(2)
    op = h.take(0, gives="xy")
    h.take(1, gives="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


@case()
def an_aborted_record_that_the_final_reader_skips_is_not_lost(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail")
    h.take(0)


@case()
def an_info_write_without_a_record_is_not_lost(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.send(h.op(outcome="info"), "x")


@case(lost_write=1, unseen=1, inconsistent_offsets=1, nonmonotonic_send=1)
def an_acknowledged_place_that_holds_another_value_is_lost(h: History) -> None:
    h.feed(1)
    h.take(0)
    first, second = h.op("f", "send"), h.op("f", "send")
    at = h.put("y", f"{second.name}:0", digest=7)
    h.send(first, "y", at)
    h.send(second, "y", at)


@case(lost_write=1, vanished=1, broken=("records that the final read-uncommitted reader did not give",))
def an_output_taken_from_all_final_reads_is_lost_where_the_log_holds_it(h: History) -> None:
    h.feed(2)
    op = h.take(0)
    h.take(1)
    h.observe("x", 0)
    h.alter("polls", lambda row: None if row["value"] == op.values[0] and row["role"] == "final" else row)
    h.alter("records", lambda row: None if row["value"] == op.values[0] else row)


@case(lost_write=1, lost_commit=1, unseen=1, because={"lost-write": "lost-commit"})
def an_acknowledged_place_beyond_the_end_of_the_log_is_lost(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op()
    h.send(op, "y", 9, value="w:1:0")


@case(broken=("did not come to the end of x/0",))
def a_reader_that_stopped_before_a_record_proves_nothing(h: History) -> None:
    h.feed(2)
    h.take(0)
    op = h.take(1)
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
    op = h.take(0)
    h.put("x", op.values[0], slot="x", inputs=[("a", 0)], digest=7)


@case()
def an_input_that_the_feeder_repeated_is_no_duplicate(h: History) -> None:
    h.feed(1)
    h.put("a", "f:0:0", digest=7)
    h.expect(1)
    h.take(0, 1)


@case()
def two_attempts_of_which_one_was_aborted_are_no_duplicate(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail")
    h.take(0)


# unseen


@case(unseen=1)
def an_acknowledged_record_without_a_place_that_nobody_saw_is_unseen(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("f", "send")
    h.send(op, "y")
    h.alter("sends", lambda row: row | {"acked": True} if row["op"] == op.op else row)


@case()
def a_record_seen_by_an_observer_alone_is_not_unseen_if_its_place_is_unknown(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("f", "send")
    value = h.send(op, "y")
    h.alter("sends", lambda row: row | {"acked": True} if row["op"] == op.op else row)
    h.poll(h.op("o", "poll"), "y", 5, value, role="observer")


@case(unseen=1)
def of_two_records_whose_places_are_unknown_the_one_that_nobody_saw_is_unseen(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("f", "send")
    seen, _ = h.send(op, "y"), h.send(op, "y")
    h.alter("sends", lambda row: row | {"acked": True} if row["op"] == op.op else row)
    h.poll(h.op("o", "poll"), "y", 5, seen, role="observer")


@case(options={"log": False})
def a_record_without_a_place_may_be_gone_from_a_compacted_topic(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("f", "send")
    h.send(op, "y")
    h.alter("sends", lambda row: row | {"acked": True} if row["op"] == op.op else row)
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "y"})


@case(lost_write=1, vanished=1, because={"vanished": "lost-write"})
def a_record_that_was_given_to_a_reader_who_saw_no_name_is_not_unseen(h: History) -> None:
    h.feed(2)
    op = h.take(0, gives="xy")
    h.take(1, gives="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)
    h.poll(h.op("o", "poll"), "y", 0, None, role="observer")


@case()
def an_info_record_that_nobody_saw_is_not_unseen(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.send(h.op("f", "send", "info"), "y")


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_record_above_a_hanging_transaction_is_not_unseen(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.take(0, worker="v", pid=2)
    h.take(1, worker="v", pid=2)


# aborted-read and dirty-read


@case(aborted_read=1, dirty_read=1, because={"dirty-read": "aborted-read"})
def a_failed_record_given_to_a_read_committed_reader_is_an_aborted_read(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail")
    h.observe("x", 0)
    h.take(0)


@case()
def a_failed_record_given_to_a_read_uncommitted_reader_is_none(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail")
    h.observe("x", 0, promised="read_uncommitted")
    h.take(0)


@case(aborted_read=1)
def a_refused_send_that_a_reader_was_given_is_an_aborted_read(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("w", "send", "fail")
    h.put("y", h.send(op, "y"), digest=7)


@case()
def what_was_acknowledged_beside_a_refused_send_is_none(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("w", "send", "fail")
    h.send(op, "y", h.put("y", f"{op.name}:0", digest=7))
    h.send(op, "y")


@case()
def a_send_of_which_nobody_can_say_whether_it_was_refused_is_none(h: History) -> None:
    h.feed(1)
    h.take(0)
    op = h.op("w", "send", "info")
    h.put("y", h.send(op, "y"), digest=7)


@case(dirty_read=1, because={"dirty-read": None})
def an_aborted_info_record_given_to_a_reader_is_a_dirty_read_only(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="abort")
    h.observe("x", 0)
    h.take(0)


@case()
def a_committed_info_record_given_to_a_reader_is_none(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="commit")
    h.observe("x", 0)


@case(aborted_read=1, ghost_commit=1, because={"aborted-read": "ghost-commit"})
def a_failed_record_that_was_committed_and_read_comes_of_a_ghost(h: History) -> None:
    h.feed(2)
    h.take(0, outcome="fail", fate="commit")
    h.take(1)
    h.observe("x", 0)
    h.alter("polls", lambda row: row | {"promised": "read_uncommitted"} if row["role"] == "final" else row)


@case(dirty_read=1, tells={"dirty-read": {"early_ms": 51.0}})
def a_record_read_long_before_its_marker_is_a_dirty_read(h: History) -> None:
    h.feed(1)
    op = h.take(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 51)


@case()
def a_record_read_within_the_margin_before_its_marker_is_none(h: History) -> None:
    h.feed(1)
    op = h.take(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 50)


@case()
def without_one_clock_no_read_is_too_early(h: History) -> None:
    h.feed(1)
    op = h.take(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 9999)
    h.wall_ms = None


def _marker_at(h: History, _value: str, ms: int) -> None:
    """The marker of x says this time; the final reader, which polled at the same instant here, came later."""
    h.alter(
        "batches",
        lambda row: row | {"max_timestamp_ms": ms} if row["control"] and row["tp"] == h.tp["x"] else row,
    )
    h.alter(
        "polls", lambda row: row | {"return_ns": row["return_ns"] + 10**12} if row["role"] == "final" else row
    )


# phantom


@case(phantom=1)
def a_visible_record_that_nobody_announced_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("x", "w:0:7")


@case(phantom=1)
def a_visible_record_without_a_name_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("x", None)


@case()
def a_record_without_a_name_where_nobody_announces_is_none(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("y", None)


@case()
def an_aborted_record_that_nobody_announced_is_none(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("x", "w:0:7", 9)
    h.mark("x", 9, "abort")


@case()
def a_value_of_a_journal_whose_last_line_is_torn_is_no_phantom(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("x", "w:0:7")
    h.alter("journals", lambda row: row | {"torn_lines": 1} if row["journal"] == "w" else row)


@case(broken=("journal v, of which nothing is here",))
def a_value_of_a_journal_that_is_gone_is_no_phantom_but_a_gap(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.put("x", "v:0:7")


@case(phantom=1, dirty_read=1, because={"phantom": "dirty-read"})
def an_output_of_an_aborted_input_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.take(0)
    h.take(1)


@case(phantom=1)
def an_output_of_an_input_that_is_not_there_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.take(9, poll=False)


@case()
def an_aborted_output_of_an_aborted_input_is_none(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.take(0)
    h.take(1, outcome="fail", poll=False)


@case(broken=("the high watermark of a/0 is 1",))
def an_output_of_an_input_above_the_high_watermark_is_none(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.take(1)
    h.alter("replicas", lambda row: row | {"high_watermark": 1} if row["tp"] == h.tp["a"] else row)


@case(options={"log": False}, phantom=1, vanished=1)
def without_logs_an_input_that_the_final_reader_passed_by_is_not_visible(h: History) -> None:
    h.feed(1)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.take(0)
    h.take(1)


# corrupt


@case(corrupt=1)
def a_record_with_another_hash_than_was_sent_is_corrupt(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.alter("records", lambda row: row | {"digest": 8} if row["slot"] == "x" else row)
    h.alter("expected", lambda row: row | {"digest": None})


@case(corrupt=1)
def an_output_with_another_hash_than_its_input_must_lead_to_is_corrupt(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.alter("expected", lambda row: row | {"digest": 8})


@case()
def hashes_that_nobody_recorded_accuse_nobody(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.alter("records", lambda row: row | {"digest": None} if row["slot"] == "x" else row)


@case()
def an_aborted_output_with_another_hash_than_expected_is_none(h: History) -> None:
    h.feed(1)
    op = h.take(0, outcome="fail")
    h.take(0)
    h.alter("records", lambda row: row | {"digest": 8} if row["value"] in op.values else row)
    h.alter("sends", lambda row: row | {"digest": 8} if row["value"] in op.values else row)
