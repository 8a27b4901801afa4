"""Transactions that did not end as their clients were answered."""

from typing import Any

from cases import case, plain, without_sentinels

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS

# lost-commit and ghost-commit


@case(
    lost_commit=1,
    lost_write=1,
    unseen=1,
    lost_input=1,
    offset_output_mismatch=1,
    because={
        "lost-write": "lost-commit",
        "unseen": "lost-commit",
        "lost-input": "lost-commit",
        "offset-output-mismatch": "lost-commit",
        "lost-commit": None,
    },
    examples={
        "lost-commit": {"aborted_records": [{"topic": "x", "fate": "abort", "operation": {"name": "w:0"}}]}
    },
)
def aborted_outputs_of_an_ok_transaction_are_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, fates={"x": "abort"})


@case(lost_commit=1, offset_output_mismatch=1)
def aborted_offsets_of_an_ok_transaction_are_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, offsets_fate="abort")


def _uncompacted(h: History) -> None:
    """The log of offset commits loses nothing. The last transaction sends no offsets."""
    h.feed(2)
    h.transact(0)
    h.transact(1, offsets_fate="")
    h.alter("partitions", lambda row: row | {"compacted": False})


@case(lost_commit=1)
def offsets_gone_from_an_uncompacted_log_are_a_lost_commit(h: History) -> None:
    _uncompacted(h)


@case(
    lost_commit=1,
    broken=(
        *(f"read_{kind} reader (z) did not come" for kind in ("committed", "uncommitted")),
        "records that the final read-uncommitted reader did not receive",
    ),
)
def where_no_sentinel_was_written_the_logs_still_tell(h: History) -> None:
    _uncompacted(h)
    without_sentinels(h)


@case(lost_commit=1)
def missing_offsets_are_lost_although_a_plain_commit_names_no_operation(h: History) -> None:
    _uncompacted(h)
    h.commit_offset(2)


@case(lost_commit=1)
def all_offsets_of_the_pipeline_gone_are_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, offsets_fate="")
    h.commit_offset(2)
    h.rows["offsets"][-1]["group"] = "another"
    h.alter("partitions", lambda row: row | {"compacted": False})


@case(lost_commit=1)
def commits_of_another_group_do_not_hide_missing_offsets(h: History) -> None:
    _uncompacted(h)
    h.commit_offset(2)
    h.rows["offsets"][-1]["group"] = "another"


@case()
def a_transaction_without_offsets_lacks_none_in_an_uncompacted_log(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(to="")
    h.alter("partitions", lambda row: row | {"compacted": False})


@case(
    lost_commit=1,
    lost_write=1,
    unseen=1,
    inconsistent_offsets=1,
    because={"lost-write": "lost-commit"},
    examples={
        "lost-commit": {"gone_records": [{"value": "w:1:0", "fate": None, "producer_id": None}]},
        "lost-write": {"log_holds": "another value"},
    },
)
def an_acknowledged_offset_with_another_record_is_a_lost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0)
    other, op = h.op("f", "send"), h.op()
    at = h.append("y", f"{other.name}:0", digest=7)
    h.send(other, "y", at)
    h.send(op, "y", at)


def _half_of_the_commits_gone(h: History) -> None:
    """One partition of the log of offset commits is damaged."""
    h.topic_partitions["z"] = OFFSETS, 1
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["z"] else row)


HALF: dict[str, Any] = {
    "broken": ("the leader's log of __consumer_offsets/1 is missing",),
    "options": {"outputs": "xyz"},
}


@case(**HALF)
def offsets_that_may_be_in_a_damaged_log_are_not_missing(h: History) -> None:
    _uncompacted(h)
    _half_of_the_commits_gone(h)


@case(unsettled=1, **HALF)
def an_info_that_may_be_in_a_damaged_log_is_indeterminate(h: History) -> None:
    plain(h)
    h.transact(to="", claim=(1, 2), outcome="info", offsets_fate="")
    _half_of_the_commits_gone(h)


@case(broken=("the leader's log of x/0 is missing",))
def an_info_without_an_offset_commit_in_the_log_had_no_effect(h: History) -> None:
    plain(h)
    h.transact(to="", claim=(1, 2), outcome="info", offsets_fate="")
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["x"] else row)


@case()
def an_info_without_a_record_in_the_logs_had_no_effect(h: History) -> None:
    plain(h)
    h.transact(to="", claim=(1, 2), outcome="info", offsets_fate="")


@case()
def offsets_gone_from_a_log_that_names_an_operation_of_no_transaction_are_none(h: History) -> None:
    _uncompacted(h)
    h.commit_offset(2, h.op("w", "commit-offsets"))


@case(not_checked=("lost-commit by offsets",))
def missing_offsets_are_no_finding_if_a_transaction_is_unnamed(h: History) -> None:
    _uncompacted(h)
    h.commit_offset(2, pid=1)
    h.append_marker(OFFSETS, 1, "commit")
    h.log_transaction(1, [OFFSETS])


@case()
def an_info_commit_that_was_aborted_is_no_lost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.transact(0)


@case(
    ghost_commit=1,
    aborted_read=1,
    because={"aborted-read": "ghost-commit"},
    examples={"ghost-commit": {"told": "it had not happened"}},
)
def records_of_an_abort_that_were_committed_are_a_ghost(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail", fate="commit")
    h.transact(1)


@case(ghost_commit=1, examples={"ghost-commit": {"told": "nothing: the commit was never invoked"}})
def records_of_a_worker_killed_before_its_commit_are_a_ghost(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit", commit_ns=None)


def _unacknowledged(h: History, fate: str) -> None:
    """A worker is killed before its commit, and before it got the offset of its record."""
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="info", fate=fate, commit_ns=None, acked=False, offsets_fate="")


@case(ghost_commit=1, examples={"ghost-commit": {"records": [{"offset": 2, "value": "w:1:0"}]}})
def a_record_that_was_never_acknowledged_and_is_committed_is_a_ghost(h: History) -> None:
    _unacknowledged(h, "commit")


@case(ghost_commit=1, examples={"ghost-commit": {"records": [{"offset": 2, "value": "w:1:0"}]}})
def a_record_that_was_acknowledged_without_an_offset_and_is_committed_is_a_ghost(h: History) -> None:
    _unacknowledged(h, "commit")
    without = {"acked": True, "tp": h.tp["x"], "offset": None}
    h.alter("sends", lambda row: row if row["acked"] else row | without)


@case()
def a_record_that_was_never_acknowledged_and_is_aborted_is_none(h: History) -> None:
    _unacknowledged(h, "abort")
    h.transact(1)


@case(
    ghost_commit=1,
    reprocessed_input=1,
    aborted_read=1,
    overlapping_commit=1,
    because={"reprocessed-input": "ghost-commit", "overlapping-commit": "ghost-commit"},
)
def a_ghost_commit_whose_inputs_are_processed_again_reprocesses_them(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail", fate="commit")
    h.transact(0)


@case()
def an_info_that_tried_to_commit_is_no_ghost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit")


@case(broken=("lacks 1 line",))
def a_journal_with_gaps_proves_no_ghost_commit(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit", commit_ns=None)
    h.alter("journals", lambda row: row | {"missing_lines": 1} if row["journal"] == "w" else row)
