"""Tables that contradict each other, so that a finding in them proves nothing."""

from cases import case, plain

from harness.model.promises import FETCH, SEGMENTS, Promises
from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row


def _twice(h: History, table: str) -> None:
    """The first row of a table is there twice. If the table were true, the row would be an anomaly."""
    rows = h.rows[table]
    rows.append(dict(rows[0]))


NOTHING = ("phantom", "lost-write", "duplicate")


@case(
    broken=("the table sends has 1 row twice", "the table sends has rows twice in 1 operation"),
    not_checked=NOTHING,
)
def a_send_with_two_rows_makes_no_finding(h: History) -> None:
    plain(h)
    _twice(h, "sends")
    h.append("y", None)


@case(broken=("the table replicas has 2 leaders of x/0", "the table batches has"), not_checked=NOTHING)
def a_partition_with_two_leaders_makes_no_finding(h: History) -> None:
    plain(h)
    h.followers = 1
    x = h.tp["x"]

    def bend(row: Row) -> Row:
        return row | {"leader": True} if row["tp"] == x else row

    h.alter("replicas", bend)
    h.alter("batches", bend)


def _cut(h: History, *, ended: bool) -> None:
    """No table has the last operation of a worker, but the log has its output."""
    h.feed(2)
    h.transact(0)
    last = h.transact(1).op
    for table in ("ops", "sends", "claims", "polls"):
        h.alter(table, lambda row: None if row.get("op") == last else row)
    h.alter("offsets", lambda row: row | {"op": None} if row["op"] == last else row)
    h.alter(
        "journals",
        lambda row: row | {"ended": ended, "ops": row["ops"] - 1} if row["journal"] == "w" else row,
    )


@case(
    broken=("journal w has no end, and records name operations after its last line: lines of it are missing",)
)
def the_last_operation_of_a_killed_worker_that_is_gone_is_no_phantom(h: History) -> None:
    _cut(h, ended=False)


@case(phantom=1)
def an_operation_that_a_worker_which_ended_did_not_write_down_is_a_phantom(h: History) -> None:
    _cut(h, ended=True)


@case(broken=("the table sends has 1 row of journal w, which had 2",))
def sends_that_the_journals_had_and_the_table_lacks_are_a_gap(h: History) -> None:
    h.feed(2)
    h.transact(0)
    last = h.transact(1).op
    h.alter("sends", lambda row: None if row["op"] == last else row)
    h.alter("journals", lambda row: row | {"sends": {"f": 2, "w": 2}.get(row["journal"], 0)})


@case(
    broken=(
        "the tables replicas and batches do not agree on the leader of x/0",
        "that its log does not hold",
    ),
    not_checked=NOTHING,
)
def batches_of_a_leader_listed_as_a_followers_make_no_finding(h: History) -> None:
    plain(h)
    h.followers = 1
    x = h.tp["x"]
    h.alter("batches", lambda row: row | {"leader": False} if row["tp"] == x else row)


@case(
    broken=("the table transactions gives 1 producer id to several transactional ids",), not_checked=NOTHING
)
def a_producer_id_of_two_transactional_ids_is_a_contradiction(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.alter("transactions", lambda row: row | {"transactional_id": "zz"} if row["log_offset"] >= 3 else row)


@case(broken=("the leader's log of x/0 lacks 2 offsets, though nothing was compacted",))
def a_hole_in_a_log_that_was_not_compacted_is_a_gap(h: History) -> None:
    h.feed(1)
    h.append("x", None, 9)
    h.append_marker("x", 9, "abort")
    h.transact(0)
    gone = {(h.tp["x"], 0), (h.tp["x"], 1)}
    h.alter("batches", lambda row: None if (row["tp"], row["base_offset"]) in gone else row)
    h.alter("records", lambda row: None if (row["tp"], row["offset"]) in gone else row)


def _without_a_marker_of_others(h: History, witness: str) -> None:
    h.feed(1)
    offset = h.append_marker(OFFSETS, 5, "commit")
    h.append_marker(OFFSETS, 6, "commit")
    h.transact(0)
    gone = (h.tp[OFFSETS], offset)
    h.alter("batches", lambda row: None if (row["tp"], row["base_offset"]) == gone else row)
    h.alter("partitions", lambda row: row | {"compacted": False})
    h.promises = Promises(journaled=("s",), witness=witness, internal_logs=(OFFSETS,))


@case()
def batches_of_others_are_not_stored_from_the_internal_topics_of_a_shared_cluster(h: History) -> None:
    _without_a_marker_of_others(h, FETCH)


@case(broken=("the leader's log of __consumer_offsets/0 lacks 1 offset, though nothing was compacted",))
def segment_files_have_the_batches_of_all(h: History) -> None:
    _without_a_marker_of_others(h, SEGMENTS)
