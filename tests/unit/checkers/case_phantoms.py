"""Records that no process made, or that were not made from their input."""

from cases import case

from tests.support.histories import History
from tests.support.stored_tables import Row

# phantom


@case(phantom=1)
def a_visible_record_without_a_send_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", "w:0:7")


@case(phantom=1)
def a_visible_record_without_a_name_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", None)


@case()
def a_record_without_a_name_in_a_topic_without_sends_is_no_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("y", None)


@case()
def an_aborted_record_without_a_send_is_no_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", "w:0:7", 9)
    h.append_marker("x", 9, "abort")


@case()
def a_record_of_a_journal_with_a_torn_last_line_is_no_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", "w:0:7")
    h.alter("journals", lambda row: row | {"torn_lines": 1} if row["journal"] == "w" else row)


@case(broken=("values of journal v, which is not stored",))
def a_value_of_a_journal_that_is_gone_is_no_phantom_but_a_gap(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.append("x", "v:0:7")


@case(phantom=1, dirty_read=1, because={"phantom": "dirty-read"})
def an_output_of_an_aborted_input_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.transact(0)
    h.transact(1)


@case(phantom=1, broken=("group g of stage s has committed offset 10 of a/0, whose log ends at 2",))
def an_output_of_an_input_that_is_not_there_is_a_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(9, poll=False)


@case(phantom=1)
def an_output_of_the_marker_with_which_the_log_begins_is_a_phantom(h: History) -> None:
    _marker_first(h)


@case(broken=("a/0 is compacted", "whose log ends at 2"))
def an_output_of_an_input_that_a_compacted_topic_holds_no_more_is_none(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(9, poll=False)
    h.alter("partitions", lambda row: row | {"compacted": row["compacted"] or row["topic"] == "a"})


@case(broken=("the log of a/0 begins at offset 1",))
def an_output_of_an_input_before_the_beginning_of_the_log_is_none(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)

    def gone(row: Row) -> Row | None:
        return None if row["tp"] == h.tp["a"] and row.get("offset", row.get("base_offset")) == 0 else row

    for table in ("records", "batches"):
        h.alter(table, gone)
    h.alter("polls", lambda row: gone(row) if row["role"] == "final" else row)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == h.tp["a"] else row)
    read = {"first": 1, "read": 2}
    h.alter("ends", lambda row: row | read if row["tp"] == h.tp["a"] else row)


@case()
def an_aborted_output_of_an_aborted_input_is_none(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.transact(0)
    h.transact(1, outcome="fail", poll=False)


@case(broken=("the high watermark of a/0 is 1",))
def an_output_of_an_input_above_the_high_watermark_is_none(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.alter("replicas", lambda row: row | {"high_watermark": 1} if row["tp"] == h.tp["a"] else row)


@case(options={"log": False}, phantom=1, vanished=1)
def without_logs_an_input_that_the_final_reader_passed_by_is_not_visible(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.transact(0)
    h.transact(1)


def _marker_first(h: History) -> None:
    h.append_marker("a", 9, "abort")
    h.feed(1)
    h.transact(0, poll=False)
    h.transact(1)


@case(options={"log": False}, phantom=1)
def without_logs_an_output_of_the_first_thing_that_was_passed_by_is_a_phantom(h: History) -> None:
    _marker_first(h)


@case(options={"log": False})
def without_logs_an_output_of_an_unread_input_is_no_phantom(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(2, poll=False)


# corrupt


@case(corrupt=1)
def a_record_with_another_hash_than_was_sent_is_corrupt(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter("records", lambda row: row | {"digest": 8} if row["output_name"] == "x" else row)
    h.alter_expected(lambda row: row | {"digest": None})


@case()
def a_name_that_is_forwarded_into_another_topic_is_neither_corrupt_nor_a_duplicate(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.append("y", op.values[0], digest=8)


@case(corrupt=1, broken=("had 2 operations, and the table ops has 1",))
def a_record_with_another_hash_than_was_sent_is_corrupt_though_its_operation_is_gone(h: History) -> None:
    h.feed(2)
    h.transact(0)
    op = h.transact(1)
    h.alter("ops", lambda row: None if row["op"] == op.op else row)
    h.alter("records", lambda row: row | {"digest": 8} if row["value"] in op.values else row)
    h.alter_expected(lambda row: row | {"digest": None})


@case(corrupt=1)
def an_output_with_another_hash_than_its_input_must_lead_to_is_corrupt(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter_expected(lambda row: row | {"digest": 8})


@case()
def missing_digests_make_no_finding(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.alter("records", lambda row: row | {"digest": None} if row["output_name"] == "x" else row)


@case()
def an_aborted_output_with_another_hash_than_expected_is_none(h: History) -> None:
    h.feed(1)
    op = h.transact(0, outcome="fail")
    h.transact(0)
    h.alter("records", lambda row: row | {"digest": 8} if row["value"] in op.values else row)
    h.alter("sends", lambda row: row | {"digest": 8} if row["value"] in op.values else row)
