"""Transactions that took effect in part."""

from cases import case

from tests.support.histories import History

# torn-transaction


@case(
    torn_transaction=1,
    lost_commit=1,
    lost_write=1,
    unseen=1,
    offset_output_mismatch=1,
    because={"torn-transaction": "lost-commit", "lost-commit": None, "offset-output-mismatch": "lost-commit"},
)
def committed_in_x_and_aborted_in_y_is_torn(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "abort"})


@case(
    torn_transaction=1,
    offset_output_mismatch=1,
    lost_write=1,
    because={"offset-output-mismatch": "torn-transaction", "lost-write": "torn-transaction"},
)
def an_info_torn_apart_is_torn(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", outcome="info", fates={"y": "abort"})


@case()
def an_open_part_is_not_torn_while_its_transaction_is_listed(h: History) -> None:
    h.feed(1)
    h.transact(0, to="x")
    h.transact(to="", outcome="info")


@case(torn_transaction=1, hanging_transaction=1, broken=("did not come to the end of y/0",))
def a_part_left_open_after_complete_is_torn(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "open"}, state="CompleteCommit")


@case(broken=("did not come to the end of y/0",))
def a_part_still_listed_as_ongoing_is_neither_torn_nor_hanging(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "open"}, state="Ongoing")


@case(
    torn_transaction=1,
    options={"log": False},
    because={"torn-transaction": None},
    not_checked=("lost-commit", "dirty-read", "hanging-transaction"),
    lost_write=1,
    unseen=1,
    lost_input=1,
)
def without_logs_half_read_is_torn(h: History) -> None:
    h.expects = "xy"
    h.feed(2)
    op = h.transact(0, to="xy")
    h.transact(1, to="xy")
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


@case(unsettled=1, options={"log": False})
def without_logs_an_unread_info_makes_no_finding(h: History) -> None:
    h.feed(1)
    op = h.transact(0, outcome="info")
    h.alter("polls", lambda row: None if row["value"] in op.values else row)
    h.transact(0, worker="v", pid=2)


@case(unsettled=1, options={"log": False})
def without_logs_an_info_with_offsets_only_is_indeterminate(h: History) -> None:
    _moves_its_group(h)
    h.alter("partitions", lambda row: None if row["internal"] else row)


@case()
def an_info_that_only_moves_its_group_and_is_not_in_the_logs_did_nothing(h: History) -> None:
    _moves_its_group(h)


@case(options={"log": False})
def without_logs_an_initialisation_with_info_is_not_indeterminate(h: History) -> None:
    h.feed(1)
    h.op(f="init", outcome="info")
    h.transact(0)


def _moves_its_group(h: History) -> None:
    """A worker takes an input that leads to nothing, and gets no answer to its commit of the offset."""
    h.feed(2)
    h.transact(0)
    h.transact(1, to="", outcome="info", offsets_fate="")
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)


@case(options={"log": False}, lost_write=2, unseen=2)
def without_logs_an_unread_transaction_is_lost_and_not_torn(h: History) -> None:
    h.expects = "xy"
    h.feed(1)
    h.transact(0, to="xy")
    op = h.op()
    for topic in "xy":
        h.send(op, topic, h.append(topic, f"{op.name}:{len(op.values)}", 1, digest=7))
        h.append_marker(topic, 1, "commit")
    h.alter("polls", lambda row: None if row["value"] in op.values else row)


@case(options={"log": False}, lost_write=1, unseen=1)
def without_logs_half_read_plain_sends_are_lost_and_not_torn(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op("f", "send")
    for _ in range(2):
        h.send(op, "y", h.append("y", f"{op.name}:{len(op.values)}", digest=7))
    h.alter("polls", lambda row: None if row["value"] == op.values[1] else row)


def _late(h: History) -> None:
    """One of two sends timed out: its record came after the commit, and was aborted with the next ones."""
    h.feed(1)
    h.transact(0)
    op = h.op(outcome="info")
    h.send(op, "y", h.append("y", f"{op.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")
    h.log_transaction(1, ["y"])
    h.append("y", h.send(op, "y"), 1, digest=7)
    h.append_marker("y", 1, "abort")
    h.log_transaction(1, ["y"], "Abort")


@case()
def a_record_that_was_never_acknowledged_tears_nothing(h: History) -> None:
    _late(h)


@case(options={"log": False})
def without_logs_a_record_that_was_never_acknowledged_tears_nothing(h: History) -> None:
    _late(h)


@case(
    torn_transaction=1,
    lost_commit=1,
    offset_output_mismatch=1,
    broken=("the table ends is empty", "no final reader"),
)
def a_transaction_torn_in_the_logs_is_torn_without_reads(h: History) -> None:
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "abort"})
    h.alter("ends", lambda _: None)


@case(broken=("the markers of 1 producer repeat the one before and contradict the transaction log",))
def a_repeated_marker_and_a_partition_that_was_only_listed_tear_nothing(h: History) -> None:
    h.feed(1)
    h.log_transaction(1, ["x"], "Abort")
    h.transact(0)
    h.entries["x"].append(dict(h.entries["x"][-1]))
