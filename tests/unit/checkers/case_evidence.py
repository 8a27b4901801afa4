"""A correct history with a short or empty table is unknown, because without evidence nothing is known."""

from cases import case

from harness.model.promises import SEGMENTS, Promises
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, RC, RU


def plain(h: History) -> None:
    h.expects = "xy"
    h.feed(3)
    h.transact(0, to="xy")
    h.transact(1, 2, to="xy")
    h.observe("x", 0)


def _empty(table: str, *said: str, **finds: int) -> None:
    """A case in which one table of a correct history is empty."""

    def draw(h: History) -> None:
        plain(h)
        h.alter(table, lambda _: None)

    draw.__name__ = f"a_right_history_whose_table_{table}_is_empty_is_unknown"
    case(broken=said, **finds)(draw)


_empty(
    "partitions",
    "the table partitions is empty",
    "the run stored the logs of the pipeline's topics, and they are missing",
    "the run stored the logs of __consumer_offsets, and they are missing",
    "the run stored the logs of __transaction_state, and they are missing",
    "nothing was read",
    "no input is visible",
    "nothing was consumed",
)
_empty("stages", "the table stages is empty")
_empty("journals", "the table journals is empty")
_empty(
    "ops",
    "the table ops does not have the operations that 4 journals had",
    "the table ops has 0",
    "nothing was committed",
)
_empty("sends", "the table sends is empty")
_empty("claims", "the table claims is empty")
_empty("polls", "the table polls has no record of", "nothing was read", "nothing was consumed")
_empty("records", "the table records has no record of")
_empty("ends", "the table ends is empty", "no final reader read")
_empty("assignments", "the table assignments is empty")
_empty("expected", "the table expected is empty", "the table expected holds 0 rows for the inputs of a/0")
_empty(
    "batches",
    "records of a/0 were read that its log does not hold",
    "no input is visible",
    "the table batches lacks the ends of 5 logs",
    *(f"the table batches has {name}/0 up to offset 0" for name in ("a", "x", "y")),
    *(f"the table batches has {name}/0 up to offset 0" for name in (OFFSETS, TRANSACTIONS)),
)
_empty("replicas", "the table replicas names no leader")
_empty("transactions", "the table transactions is empty")
_empty("offsets", "the table offsets is empty")


@case(broken=("lacks 2 lines",))
def a_journal_with_missing_lines_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"missing_lines": 2} if row["journal"] == "w" else row)


@case()
def a_journal_with_a_torn_last_line_is_none(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"torn_lines": 1, "ended": False} if row["journal"] == "w" else row)


@case(broken=("journal f ends early: its feeder",))
def a_feeder_that_was_cut_off_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"ended": False} if row["role"] == "feeder" else row)


@case(broken=("had 2 operations, and the table ops has 1",))
def an_operation_that_is_gone_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("ops", lambda row: None if row["name"] == "w:1" else row)


@case(options={"log": False}, broken=("had 2 operations, and the table ops has 1",))
def an_operation_that_is_gone_is_no_unsettled_one(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="info", fate="abort")
    h.alter("ops", lambda row: None if row["name"] == "w:1" else row)


@case(broken=("nothing was read", "no input is visible", "nothing was consumed", "nothing was committed"))
def a_run_without_operations_is_unknown(h: History) -> None:
    h.op("w", outcome="info")


@case(broken=("nothing was consumed", "nothing was committed"))
def without_transactions_no_transaction_log_is_missed(h: History) -> None:
    h.feed(1)


@case(broken=("nothing was committed",))
def where_the_only_transaction_was_aborted_no_offset_is_missed(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail", offsets_fate="")


@case()
def a_run_without_a_stage_may_have_a_feeder_alone(h: History) -> None:
    h.feed(1)
    h.alter("stages", lambda _: None)


@case(broken=("nothing was committed",))
def a_run_without_a_stage_in_which_no_send_succeeded_is_unknown(h: History) -> None:
    h.append("y", None)
    h.send(h.op("f", "send", "fail"), "a")
    h.alter("stages", lambda _: None)


@case(broken=("the table journals is empty", "nothing was committed"))
def sends_of_which_neither_journal_nor_operation_is_here_are_a_gap(h: History) -> None:
    plain(h)
    for table in ("journals", "ops"):
        h.alter(table, lambda _: None)


@case(phantom=1)
def a_record_that_bears_no_name_of_ours_is_of_no_journal_that_is_gone(h: History) -> None:
    plain(h)
    h.append("y", "another's")


@case()
def the_end_of_an_empty_partition_without_a_sentinel_is_known(h: History) -> None:
    h.feed()
    h.transact(0)
    y, ends = h.tp["y"], {"log_end": 0, "high_watermark": 0}
    for table in ("records", "polls", "batches"):
        h.alter(table, lambda row: None if row["tp"] == y else row)
    h.alter("replicas", lambda row: row | ends if row["tp"] == y else row)
    h.alter(
        "ends", lambda row: row | {"next": 0, "read": 0, "sentinel_offset": -1} if row["tp"] == y else row
    )


@case(broken=("it stopped at offset 1",))
def a_final_reader_that_stopped_is_named_with_its_partition(h: History) -> None:
    plain(h)
    h.alter("ends", lambda row: row | {"sentinel_offset": None, "next": 1} if row["tp"] == h.tp["y"] else row)


@case(broken=("did not come to the end of y/0: it stopped at offset 1",))
def records_after_the_final_readers_stop_are_not_lost(h: History) -> None:
    plain(h)
    h.alter("records", lambda row: None if row["tp"] == h.tp["y"] and row["offset"] >= 1 else row)
    stopped = {"sentinel_offset": None, "next": 1, "read": 1}
    h.alter("ends", lambda row: row | stopped if (row["tp"], row["isolation"]) == (h.tp["y"], RU) else row)


@case(
    options={"log": False},
    not_checked=("lost-commit", "ghost-commit", "dirty-read", "group-offset-regression"),
)
def without_logs_a_right_history_is_clean(h: History) -> None:
    plain(h)


@case(
    options={"log": False},
    broken=(
        "the run stored the logs of the pipeline's topics, and they are missing",
        "the run stored the logs of __consumer_offsets, and they are missing",
        "the run stored the logs of __transaction_state, and they are missing",
    ),
)
def logs_that_were_read_and_are_not_here_are_missed(h: History) -> None:
    plain(h)
    h.had_log = True


@case(
    options={"log": False},
    broken=(
        "the run stored the logs of the pipeline's topics, and they are missing",
        "the run stored the logs of __consumer_offsets, and they are missing",
    ),
)
def a_log_that_was_not_promised_is_not_missed(h: History) -> None:
    plain(h)
    h.had_log = True
    h.promises = Promises(journaled=("s",), witness=SEGMENTS, internal_logs=(OFFSETS,))


@case(broken=("nothing was consumed", "nothing was committed"))
def a_stage_without_its_promised_journal_is_reported(h: History) -> None:
    _without_workers(h)


@case(broken=("nothing was committed",))
def a_stage_without_promised_journals_needs_no_consumer(h: History) -> None:
    _without_workers(h)
    h.promises = Promises(witness=SEGMENTS, internal_logs=(OFFSETS, TRANSACTIONS))


@case(options={"inputs": "ab"}, broken=("it is not known what the inputs of stage t must lead to",))
def a_stage_without_expected_outputs_is_reported(h: History) -> None:
    plain(h)
    h.alter("stages", lambda row: row | {"stage": "t"} if row["in_topic"] == "b" else row)
    h.alter("assignments", lambda row: None if row["tp"] == h.tp["b"] else row)


def _without_workers(h: History) -> None:
    """Its inputs are there, but nothing of its workers."""
    h.feed(1)
    h.expects = ""
    h.alter_expected(lambda row: None)
    h.alter("assignments", lambda row: None)


def _damaged(h: History, *topics: str) -> None:
    """The leader logs of these topics cannot be read."""
    tps = [h.tp[topic] for topic in topics]
    h.alter("replicas", lambda row: row | {"damaged": "a wrong crc"} if row["tp"] in tps else row)


@case(
    broken=("the leader's log of __consumer_offsets/0 is missing",),
    not_checked=("group-offset-regression", "overlapping-commit"),
)
def without_the_offsets_log_its_anomalies_are_not_checked(h: History) -> None:
    plain(h)
    _damaged(h, OFFSETS)


@case(
    broken=tuple(f"the leader's log of {topic}/0 is missing" for topic in "axy"),
    not_checked=("lost-commit", "ghost-commit", "dirty-read", "hanging-transaction"),
)
def without_logs_of_the_topics_their_anomalies_are_not_checked(h: History) -> None:
    plain(h)
    _damaged(h, *"axy")


@case(reprocessed_input=1, overlapping_commit=1)
def an_allowed_anomaly_is_listed_all_the_same(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(0)
    h.allowed = frozenset({"reprocessed-input"})


@case(broken=("the leader's log of x/0 is missing or damaged",))
def a_damaged_log_is_a_gap(h: History) -> None:
    plain(h)
    _damaged(h, "x")


@case(broken=("no input is visible", *(f"the high watermark of {topic}/0 is 0" for topic in "axy")))
def a_log_that_ends_before_the_last_read_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("replicas", lambda row: row | {"high_watermark": 0})


@case(broken=("the log of a/0 begins at offset 1",))
def a_log_without_its_beginning_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == 0 else row)


def _begins_above_0(h: History, isolation: str) -> None:
    plain(h)
    here = h.tp["y"], isolation
    h.alter("ends", lambda row: row | {"first": 1} if (row["tp"], row["isolation"]) == here else row)


@case(broken=("the log of y/0 begins at offset 1",), options={"log": False})
def a_final_reader_that_began_above_0_is_reported(h: History) -> None:
    _begins_above_0(h, RC)


@case(broken=("the log of y/0 begins at offset 1",), options={"log": False})
def a_read_uncommitted_final_reader_that_began_above_0_is_reported(h: History) -> None:
    _begins_above_0(h, RU)


@case(broken=("y/0 is compacted: what is missing from it proves nothing",), options={"log": False})
def without_logs_a_compacted_partition_is_a_gap_too(h: History) -> None:
    plain(h)
    h.alter("partitions", lambda row: row | {"compacted": True} if row["tp"] == h.tp["y"] else row)


@case(
    broken=("the log of y/0 holds 1 records at or above offset 4, where the final read-uncommitted reader",)
)
def records_after_the_sentinel_are_reported(h: History) -> None:
    plain(h)
    last = {"next": 4, "sentinel_offset": 3}
    h.alter("ends", lambda row: row | last if (row["tp"], row["isolation"]) == (h.tp["y"], RU) else row)


@case(broken=("reader (z) met the end of y/0 at offset 5, and read nothing from offset 5 on",))
def a_sentinel_beyond_the_reported_end_is_a_contradiction(h: History) -> None:
    plain(h)
    here = h.tp["y"], RC
    h.alter("ends", lambda row: row | {"next": 5} if (row["tp"], row["isolation"]) == here else row)


@case(
    broken=(
        "the table polls has no record of z/0, where the final read_committed reader (z) read 1 records",
    ),
    options={"outputs": "xyz"},
)
def a_sentinel_that_is_in_no_table_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("polls", lambda row: None if row["tp"] == h.tp["z"] else row)


@case(
    broken=(
        "the tables assignments and stages name",
        "the tables expected and stages name",
        "the tables ops and",
    )
)
def expected_outputs_of_another_group_are_not_lost(h: History) -> None:
    plain(h)
    h.alter("stages", lambda row: row | {"group": "another"})


@case(unseen=1, broken=("the run stored the logs of __consumer_offsets, and they are missing",))
def without_an_offsets_topic_the_other_anomalies_are_checked(h: History) -> None:
    h.expects = "xy"
    h.feed(2)
    op = h.transact(0, to="xy")
    h.transact(1, to="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)
    h.without_topic(OFFSETS)


def _says(h: History, isolation: str, read: int) -> None:
    here = h.tp["y"], isolation
    h.alter("ends", lambda row: row | {"read": read} if (row["tp"], row["isolation"]) == here else row)


@case(
    broken=(
        "the table polls holds 4 records of y/0, where the final read_committed reader (z) read 5 records",
    )
)
def missing_rows_of_a_final_readers_reads_are_reported(h: History) -> None:
    plain(h)
    _says(h, RC, 5)


@case(
    broken=(
        "the table records holds 4 records of y/0, where the final read_uncommitted reader (z) read 5 records",
    ),
    options={"log": False},
)
def missing_rows_of_a_read_uncommitted_final_reader_are_reported(h: History) -> None:
    plain(h)
    _says(h, RU, 5)


@case(broken=("the table polls holds 4 records of y/0, where the final read_committed reader (z) read 2",))
def a_table_that_holds_more_than_was_read_contradicts_itself_too(h: History) -> None:
    plain(h)
    _says(h, RC, 2)


def _observed(h: History, topic: str, read: int) -> None:
    """An observer reported at its end how many records it received."""
    end = {"first": 0, "next": 9, "read": read, "sentinel_offset": None}
    h.journals.setdefault("o", {"journal": "o", "role": "observer", "ops": 0})
    row = {"journal": "o", "isolation": RC, "tp": h.tp[topic], "role": "observer"}
    h.rows["ends"].append(row | end)


@case()
def an_observer_with_all_its_rows_is_evidence(h: History) -> None:
    plain(h)
    _observed(h, "x", 1)


@case(broken=("the observer (o) received nothing from y/0, where 3 records are visible",))
def an_observer_without_reads_is_no_evidence(h: History) -> None:
    plain(h)
    _observed(h, "x", 1)
    _observed(h, "y", 0)


@case(broken=("the table polls has 1 records of x/0 for observers, and they received 2",))
def missing_rows_of_an_observers_reads_are_reported(h: History) -> None:
    plain(h)
    _observed(h, "x", 2)


@case(options={"outputs": "xyz"})
def an_observer_may_read_nothing_if_nothing_is_visible(h: History) -> None:
    plain(h)
    _observed(h, "z", 0)


@case(broken=("no final reader read the topics read_committed",))
def an_observer_is_no_final_reader(h: History) -> None:
    plain(h)
    _observed(h, "x", 1)
    final = "z", RC
    h.alter("ends", lambda row: None if (row["journal"], row["isolation"]) == final else row)


@case(broken=("y/0 is compacted",))
def compaction_of_a_correct_run_makes_no_finding(h: History) -> None:
    h.expects = "xy"
    h.feed(3)
    h.transact(0, to="xy")
    h.transact(1, 2, to="xy")
    y = h.tp["y"]
    h.alter("partitions", lambda row: row | {"compacted": True} if row["tp"] == y else row)
    for table, offset in (("batches", "base_offset"), ("records", "offset"), ("polls", "offset")):
        h.alter(table, lambda row, offset=offset: None if (row["tp"], row[offset]) == (y, 0) else row)


@case()
def a_compacted_partition_of_which_every_offset_is_there_is_whole(h: History) -> None:
    plain(h)
    y = h.tp["y"]
    kept = {"compacted": True, "kept": True}
    h.alter("partitions", lambda row: row | kept if row["tp"] == y else row)
