"""Records that readers received too early, with different values, or that vanished later."""

from cases import case

from tests.support.histories import History

RU = "read_uncommitted"
NAMELESS = "one reader received 1 record of x/0 without the value that others received"

# read-above-lso


def _open(h: History, fate: str = "open") -> None:
    """x holds an open record of w, and a committed one of v above it."""
    h.feed(2)
    state = "CompleteAbort"
    h.transact(0, outcome="fail", fate=fate, offsets_fate="abort", state=state)
    h.transact(0, worker="v", pid=2)
    h.transact(1, worker="v", pid=2)


@case(
    read_above_lso=1,
    hanging_transaction=1,
    because={"read-above-lso": "hanging-transaction"},
    broken=("did not come to the end of x/0",),
)
def a_record_read_above_an_open_one_is_above_the_lso(h: History) -> None:
    _open(h)
    h.observe("x", 1)


@case(dirty_read=1, aborted_read=1, hanging_transaction=1, broken=("did not come to the end of x/0",))
def the_first_open_record_itself_is_a_dirty_read_and_not_above_the_lso(h: History) -> None:
    _open(h)
    h.observe("x", 0)


@case()
def a_record_read_above_a_decided_one_is_not_above_the_lso(h: History) -> None:
    _open(h, "abort")
    h.observe("x", 2)


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_read_uncommitted_reader_may_read_above_the_lso(h: History) -> None:
    _open(h)
    h.observe("x", 1, promised=RU)


# vanished


@case(vanished=1)
def a_record_that_the_final_reader_skipped_has_vanished(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.observe("x", 1, "w:8:0")


@case(vanished=1, options={"log": False})
def without_logs_a_record_that_is_gone_has_vanished(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.observe("x", 1, "w:8:0")


@case()
def a_record_read_at_read_uncommitted_may_vanish(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.observe("x", 1, "w:8:0", promised=RU)


@case(vanished=1)
def only_read_committed_reads_make_a_record_vanished(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.observe("x", 1, "w:8:0")
    h.poll(h.op("o2", "poll"), "x", 1, "w:8:0", role="observer", promised=RU)


@case(dirty_read=1)
def an_aborted_record_that_was_read_has_not_vanished(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.observe("x", 0)
    h.transact(0)


@case(broken=("did not come to the end of x/0",))
def a_record_after_the_final_readers_stop_has_not_vanished(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.observe("x", 1, "w:8:0")
    h.alter("ends", lambda row: row | {"next": 1, "sentinel_offset": None} if row["tp"] == 1 else row)


@case(vanished=1, lost_write=1, because={"vanished": "lost-write"})
def an_acknowledged_record_that_was_read_and_is_gone_is_lost_first_of_all(h: History) -> None:
    h.expects = "xy"
    h.feed(2)
    op = h.transact(0, to="xy")
    h.transact(1, to="xy")
    h.observe("y", 0)
    h.alter("polls", lambda row: None if row["value"] == op.values[1] and row["role"] == "final" else row)


# inconsistent-offsets


@case(inconsistent_offsets=1)
def different_values_at_one_offset_are_inconsistent(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.poll(h.op("o1", "poll"), "x", 0, "w:0:0", role="observer")
    h.poll(h.op("o2", "poll"), "x", 0, "w:8:0", role="observer")


@case(broken=(NAMELESS,))
def a_read_without_a_value_is_not_inconsistent(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.poll(h.op("o", "poll"), "x", 0, None, role="observer")


@case(
    broken=(NAMELESS,),
    inconsistent_offsets=1,
    examples={"inconsistent-offsets": {"operations": [{"op": 1}, {"op": 2}, {"op": 4}]}},
)
def a_read_without_a_value_is_no_evidence_of_inconsistency(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.poll(h.op("o1", "poll"), "x", 0, "w:8:0", role="observer")
    h.poll(h.op("o2", "poll"), "x", 0, None, role="observer")


@case()
def one_value_at_one_offset_of_two_partitions_is_none(h: History) -> None:
    h.expects = "xy"
    h.feed(1)
    h.transact(0, to="xy")
    h.observe("x", 0)
    h.observe("y", 0)


# precommitted-read


@case(precommitted_read=1)
def an_operation_that_polls_its_own_record_reads_before_the_commit(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.poll(op, "x", 0, op.values[0])


@case()
def an_operation_at_read_uncommitted_may_poll_its_own_record(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.poll(op, "x", 0, op.values[0])
    h.alter("polls", lambda row: row | {"promised": RU} if row["role"] == "worker" else row)
    h.alter("stages", lambda row: row | {"promised": RU})


@case()
def the_next_operation_of_the_process_may_read_it(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.poll(h.op("w", "poll"), "x", 0, op.values[0])


@case()
def an_operation_may_poll_others_records_of_its_output_topic(h: History) -> None:
    h.feed(2)
    h.transact(0, worker="v", pid=2)
    h.poll(h.transact(1), "x", 0, "v:0:0")


@case()
def the_operation_of_that_number_in_another_run_may_read_the_record(h: History) -> None:
    h.feed(1)
    op = h.op("o", "poll")
    h.transact(0)
    h.poll(op, "x", 0, "w:0:0", role="observer")


@case(precommitted_read=1)
def an_info_that_reads_its_own_is_one_too(h: History) -> None:
    h.feed(1)
    op = h.transact(0, outcome="info", fate="commit")
    h.poll(op, "x", 0, op.values[0])


# dirty-read


@case(dirty_read=1)
def only_the_reader_that_was_promised_read_committed_has_read_dirty(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.observe("x", 0)
    h.poll(h.op("o2", "poll"), "x", 0, "w:0:0", role="observer", promised=RU)
    h.transact(0)


@case(inconsistent_offsets=1)
def another_value_than_that_of_the_aborted_record_is_no_dirty_read(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.observe("x", 0, "w:8:0")
    h.transact(0)
