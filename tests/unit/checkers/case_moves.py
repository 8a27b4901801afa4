"""Positions of a process in a partition: where it began, what it received and what it committed."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS

# beginnings


def _gone(h: History) -> None:
    """Another worker takes over what w had begun, and commits."""
    h.feed(2)
    h.transact(0)
    h.assign("w", gained=False)
    h.transact(1, worker="w2", pid=2)


@case(stale_offset=1)
def a_reassigned_partition_begins_at_the_groups_offset_of_that_time(h: History) -> None:
    _gone(h)
    h.assign("w")
    h.poll(h.op("w", "poll"), "a", 1, "f:1:0")


@case(stale_offset=1)
def an_assignment_during_a_poll_counts(h: History) -> None:
    _gone(h)
    began = h.clock
    h.assign("w")
    h.poll(h.op("w", "poll", call_ns=began), "a", 1, "f:1:0")


@case()
def a_poll_in_which_a_partition_was_lost_again_may_hold_records_of_before(h: History) -> None:
    """The partition was revoked at the moment at which the poll began."""
    _gone(h)
    h.assign("w")
    h.assign("w", gained=False)
    lost = h.clock
    h.assign("w")
    h.poll(h.op("w", "poll", call_ns=lost), "a", 1, "f:1:0")


# inside an operation


@case(
    int_nonmonotonic_poll=1,
    examples={"int-nonmonotonic-poll": {"reader": {"n": 1}}},
)
def the_example_is_the_first_of_several_steps_back_in_a_poll(h: History) -> None:
    h.feed(4)
    h.transact(0)
    h.transact(3, 2, 1)


@case(int_nonmonotonic_poll=1)
def a_record_read_before_a_step_back_counts_as_read(h: History) -> None:
    h.feed(4)
    h.transact(0)
    h.transact(1, 3, 2)


@case(int_nonmonotonic_poll=1)
def a_send_is_no_step_between_polls(h: History) -> None:
    h.feed(3)
    h.transact(0)
    op = h.op("w")
    for at in (2, 1):
        h.poll(op, "a", at, f"f:{at}:0")
    for n in range(2):
        h.send(op, "a", h.append("a", f"{op.name}:{n}", 1, digest=7))
    h.append_marker("a", 1, "commit")
    h.log_transaction(1, "a")


@case()
def records_are_delivered_in_the_order_of_their_numbers(h: History) -> None:
    """For every way of storing them."""
    h.feed(2)
    h.transact(0, 1)
    h.rows["polls"].reverse()


@case(broken=("(z) received 3 records of a/0 below an earlier record", "(z) received 3 records of x/0 below"))
def a_final_reader_that_goes_back_makes_a_run_unknown(h: History) -> None:
    h.feed(3)
    h.transact(0, 1, 2)
    h.alter("polls", lambda row: row | {"n": -row["n"]} if row["role"] == "final" else row)


@case(broken=("the table ops lacks operations of which the table polls has 2 rows",))
def polls_without_an_operation_are_not_checked(h: History) -> None:
    plain(h)
    h.feed(1)
    ops = [h.op("o", "poll") for _ in range(2)]
    for op, at in zip(ops, (1, 0), strict=True):
        h.poll(op, "a", at, f"f:{at}:0", role="observer")
    h.transact(1)
    h.alter("ops", lambda row: None if row["journal"] == "o" else row)
    h.alter("journals", lambda row: row | {"ops": 0} if row["journal"] == "o" else row)


# what was committed


@case(
    premature_offset=1,
    lost_input=2,
    offset_output_mismatch=2,
    examples={"premature-offset": {"given_to": 1, "inputs_not_given": 2}},
)
def a_premature_offset_example_counts_the_inputs_not_given(h: History) -> None:
    h.feed(4)
    h.transact(0, 1, claim=(0, 4))


@case(premature_offset=1, lost_input=1, offset_output_mismatch=1)
def an_offset_in_the_log_beyond_the_claim_counts(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.alter("offsets", lambda row: row | {"committed": 2})


@case(offset_output_mismatch=1)
def an_aborted_offset_beyond_the_claim_does_not_count(h: History) -> None:
    """Its outputs were committed."""
    h.feed(2)
    h.transact(0, outcome="info", offsets_fate="abort")
    h.alter("offsets", lambda row: row | {"committed": 2})


@case(options={"inputs": "ab"})
def the_offset_of_another_partition_counts_there(h: History) -> None:
    h.feed(2)
    h.feed(2, "b")
    op = h.op()
    for source, upto in (("a", 1), ("b", 2)):
        for at in range(upto):
            h.poll(op, source, at, h.entries[source][at]["value"])
            value = f"{op.name}:{len(op.values)}"
            offset = h.append("x", value, 1, output_name="x", inputs=[(source, at)], digest=7)
            h.send(op, "x", offset, inputs=[at], output_name="x", source=source)
        h.rows["claims"].append({"op": op.op, "group": "g", "tp": h.tp[source], "first": 0, "next": upto})
        h.commit_offset(upto, op, 1, source=source)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])
