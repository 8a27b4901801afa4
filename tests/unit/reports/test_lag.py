"""What is between the committed offset of a group and the log end, for each kind of log entry."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.recovery.lag import NO_LOGS, measure_lag
from harness.common.documents import decode, encode
from harness.record.table_reader import RunTables
from harness.results.recovery import MOST_ROWS, EntryCounts, Lag, PartitionLag
from harness.results.run_metadata import RunMetadata, StageProgress
from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row, write_store

SENTINEL = "1 sentinel, which Fencepost wrote and no group processes"


def lag_of(folder: Path, history: History) -> Lag:
    return measure_lag(RunTables(write_store(folder, [(1, history)], log=True)))


def only_row(folder: Path, history: History) -> PartitionLag:
    lag = lag_of(folder, history)
    (row,) = lag.rows
    assert lag.all_rows == 1
    assert lag.unknown_rows == (row.entries is None)
    assert lag.entries == (row.entries or EntryCounts())
    return row


def without_journals(history: History) -> History:
    """Return the history of a program of a user: without journals and without sentinels."""
    history.alter("stages", lambda row: row | {"journaled": False})
    history.alter("records", lambda row: None if row["sentinel"] else row)
    last = {tp: len(history.entries[topic]) for topic, tp in history.tp.items() if not topic.startswith("__")}
    history.alter("batches", lambda row: None if last.get(row["tp"], -1) == row["base_offset"] else row)
    ends = ("log_end", "high_watermark")
    history.alter("replicas", lambda row: row | {end: last.get(row["tp"], row[end]) for end in ends})
    return history


def transactional_inputs(count: int, pid: int, marker: str | None, history: History | None = None) -> History:
    """Append inputs that a transaction of another producer wrote."""
    history = history or History()
    for _ in range(count):
        history.append("a", "v", pid)
    if marker:
        history.append_marker("a", pid, marker)
    return history


def compacted(history: History) -> History:
    """Return the history with a compacted input topic, whose first record the log cleaner removed."""
    history.alter("partitions", lambda row: row | {"compacted": row["tp"] == history.tp["a"]})
    return history


def test_a_sentinel_is_no_input_that_is_left(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, 1)
    row = only_row(tmp_path, history)
    assert (row.name, row.group, row.committed, row.end) == ("a/0", "g", 2, 3)
    assert row.between == SENTINEL


def test_a_program_without_journals_has_no_sentinels_and_its_lag_can_be_zero(tmp_path: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, 1)
    lag = lag_of(tmp_path, without_journals(history))
    assert lag.rows[0].between == "nothing"
    assert lag.summary == (
        "Nothing is left: each group has processed all committed inputs. The lag that tools show is zero."
    )


def test_the_marker_at_the_committed_offset_is_between(tmp_path: Path) -> None:
    history = transactional_inputs(2, 7, "commit")
    history.commit_offset(2)
    lag = lag_of(tmp_path, without_journals(history))
    assert (lag.rows[0].committed, lag.rows[0].end, lag.rows[0].between) == (2, 3, "1 commit marker")
    assert lag.summary == (
        "Nothing is left: each group has processed all committed inputs. The lag that tools show is not zero, because "
        "the last committed offsets are followed by 1 commit marker."
    )


def test_a_marker_below_the_committed_offset_is_not_between(tmp_path: Path) -> None:
    history = transactional_inputs(2, 7, "commit")
    history.commit_offset(3)
    assert only_row(tmp_path, without_journals(history)).between == "nothing"


def test_the_record_at_the_committed_offset_is_left(tmp_path: Path) -> None:
    history = transactional_inputs(2, 7, "commit")
    history.commit_offset(1)
    lag = lag_of(tmp_path, without_journals(history))
    assert lag.rows[0].between == "1 committed record that the group has not processed and 1 commit marker"
    assert lag.is_left
    assert lag.summary == (
        "1 committed record is left: its group has not processed it, for example group g in a/0 (committed offset 1, "
        "log end 3)."
    )


def test_a_batch_that_holds_the_committed_offset_counts_from_there(tmp_path: Path) -> None:
    history = History()
    history.feed(5)
    history.commit_offset(2)
    whole = {"base_offset": 0, "last_offset": 4, "count": 5}
    inputs = history.tp["a"]
    history.alter(
        "batches",
        lambda row: (
            row
            if row["tp"] != inputs or row["base_offset"] == 5
            else (row | whole if row["base_offset"] == 0 else None)
        ),
    )
    assert only_row(tmp_path, history).entries == EntryCounts(committed_records=3, sentinels=1)


def test_aborted_records_and_their_marker_are_named(tmp_path: Path) -> None:
    history = transactional_inputs(1, 7, "commit")
    history.commit_offset(1)
    transactional_inputs(2, 7, "abort", history)
    row = only_row(tmp_path, without_journals(history))
    assert row.between == "2 records of aborted transactions, 1 commit marker and 1 abort marker"
    assert not lag_of(tmp_path, history).is_left


def test_the_next_marker_of_the_same_producer_decides_a_record(tmp_path: Path) -> None:
    """Two producers interleave, and one of them commits after it aborted."""
    history = History()
    for pid in (7, 8, 7):
        history.append("a", "v", pid)
    history.append_marker("a", 8, "commit")
    history.append_marker("a", 7, "abort")
    history.append("a", "v", 7)
    history.append_marker("a", 7, "commit")
    row = only_row(tmp_path, without_journals(history))
    assert row.committed is None
    assert row.entries == EntryCounts(
        committed_records=2, aborted_records=2, commit_markers=2, abort_markers=1
    )


@pytest.mark.parametrize("pid", [6, 7, 8])
def test_records_of_an_open_transaction_are_left(tmp_path: Path, pid: int) -> None:
    """A marker of another producer, of another transaction or of another partition does not decide them."""
    history = transactional_inputs(1, 7, "commit", History(inputs="ab"))
    history.commit_offset(1)
    transactional_inputs(2, pid, None, history)
    history.append("b", "v", 7)
    lag = lag_of(tmp_path, without_journals(history))
    assert {row.name: row.between for row in lag.rows} == {
        "a/0": "2 records of open transactions and 1 commit marker",
        "b/0": "1 record of an open transaction",
    }
    assert lag.is_left
    assert lag.summary.startswith("3 records of open transactions are left: no marker shows")


def test_a_group_that_lags_has_committed_records_left(tmp_path: Path) -> None:
    history = History()
    history.feed(5)
    history.transact(0, 1)
    row = only_row(tmp_path, history)
    assert row.entries == EntryCounts(committed_records=3, sentinels=1)
    assert row.between == f"3 committed records that the group has not processed and {SENTINEL}"


def test_a_group_without_offset_commit_has_everything_left(tmp_path: Path) -> None:
    history = History()
    history.feed(3)
    lag = lag_of(tmp_path, history)
    assert lag.rows[0].committed is None
    assert lag.entries == EntryCounts(committed_records=3, sentinels=1)
    assert "(no offset committed, log end 4)" in lag.summary


@pytest.mark.parametrize(("fate", "pending"), [("abort", None), ("open", 4)])
def test_an_offset_commit_counts_only_if_its_transaction_committed(
    tmp_path: Path, fate: str, pending: int | None
) -> None:
    history = History()
    history.feed(4)
    history.transact(0, 1)
    history.transact(2, 3, offsets_fate=fate)
    row = only_row(tmp_path, history)
    assert (row.committed, row.pending) == (2, pending)
    assert row.entries == EntryCounts(committed_records=2, sentinels=1)
    assert ("a commit of offset 4 is in an open transaction" in row.between) is (pending is not None)


def test_the_last_offset_commit_counts_and_not_the_highest(tmp_path: Path) -> None:
    history = History()
    history.feed(4)
    history.transact(0, 1, 2, 3)
    history.commit_offset(1)
    assert only_row(tmp_path, history).committed == 1


def test_the_log_of_the_leader_counts_and_not_that_of_a_follower(tmp_path: Path) -> None:
    """The follower lacks the last records, and its last offset commit has no marker."""
    history = History()
    history.followers = 1
    history.feed(4)
    history.transact(0, 1)
    history.transact(2)

    def shorten(row: Row) -> Row | None:
        return row if row["leader"] or row["base_offset"] in (0, 3) else None

    history.alter("batches", shorten)
    history.alter("replicas", lambda row: row if row["leader"] else row | {"log_end": 1})
    row = only_row(tmp_path, history)
    assert (row.committed, row.end) == (3, 5)
    assert row.entries == EntryCounts(committed_records=1, sentinels=1)


def test_each_group_and_partition_has_its_row_and_the_worst_is_first(tmp_path: Path) -> None:
    history = History(inputs="ab")
    history.feed(2)
    history.feed(1, "b")
    history.transact(0, 1)
    lag = lag_of(tmp_path, history)
    assert [(row.name, row.committed) for row in lag.rows] == [("b/0", None), ("a/0", 2)]
    assert lag.entries == EntryCounts(committed_records=1, sentinels=2)


def test_two_groups_of_one_partition_have_their_own_counts(tmp_path: Path) -> None:
    history = History(inputs="ab")
    history.feed(4)
    history.commit_offset(4)
    history.commit_offset(1)
    history.rows["offsets"][-1]["group"] = "k"
    other = {"stage": "t", "group": "k", "in_topic": "a"}
    history.alter("stages", lambda row: row | other if row["in_topic"] == "b" else row)
    lag = lag_of(tmp_path, history)
    assert [(row.group, row.committed, row.entries) for row in lag.rows] == [
        ("k", 1, EntryCounts(committed_records=3, sentinels=1)),
        ("g", 4, EntryCounts(sentinels=1)),
    ]


def test_a_topic_that_only_offset_commits_name_has_a_row(tmp_path: Path) -> None:
    """For instance a repartition topic of Kafka Streams."""
    history = History()
    history.feed(1)
    history.transact(0)
    history.commit_offset(1, source="x")
    lag = lag_of(tmp_path, without_journals(history))
    assert {row.name: row.between for row in lag.rows} == {"a/0": "nothing", "x/0": "1 commit marker"}


def altered(table: str, change: Callable[[Row], Row | None]) -> Callable[[History], object]:
    return lambda history: history.alter(table, change)


def of_inputs(**columns: object) -> Callable[[Row], Row]:
    """The partition of the inputs is number 0."""
    return lambda row: row | columns if row["tp"] == 0 else row


def progress_lag(folder: Path, printed: StageProgress) -> Lag:
    """Return the lag of a stage without a group, which has five inputs and printed this at the end of the run."""
    history = History()
    history.feed(5)
    history.alter("stages", lambda row: row | {"group": None})
    history = without_journals(history)
    store = write_store(folder, [(1, history)], log=True)
    RunMetadata(stage_progress={"s": printed}).save(store / "metadata.json")
    return measure_lag(RunTables(store))


def test_printed_positions_say_what_a_stage_without_a_group_has_left(tmp_path: Path) -> None:
    lag = progress_lag(tmp_path, StageProgress((("a", 0, 3),), left=2))
    (row,) = lag.rows
    assert (row.group, row.name, row.committed) == (None, "a/0", 3)
    assert row.between == "2 committed records that the stage has not processed"
    assert lag.summary == (
        "2 committed records are left: their stages have not processed them, for example stage s in a/0 (position 3, "
        "log end 5)."
    )


def test_a_stage_at_the_end_of_its_inputs_has_nothing_left(tmp_path: Path) -> None:
    lag = progress_lag(tmp_path, StageProgress((("a", 0, 5),), left=0))
    assert lag.summary.startswith("Nothing is left: each stage has processed all committed inputs.")


def test_a_partition_without_a_printed_position_is_not_begun(tmp_path: Path) -> None:
    assert progress_lag(tmp_path, StageProgress(left=5)).entries == EntryCounts(committed_records=5)


def test_a_printed_number_counts_for_all_inputs_of_the_stage(tmp_path: Path) -> None:
    lag = progress_lag(tmp_path, StageProgress(processed=4, left=1))
    (row,) = lag.rows
    assert (row.name, row.between) == ("all inputs", "1 committed record that the stage has not processed")


def test_progress_that_could_not_be_read_is_not_known_and_names_the_command(tmp_path: Path) -> None:
    lag = progress_lag(tmp_path, StageProgress(not_known="`./positions` ended with status 1"))
    assert lag.unknown_rows == 1
    assert lag.summary == "It is not known whether anything is left: a: `./positions` ended with status 1."


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            altered("stages", lambda row: row | {"group": None}),
            "stage s stores its positions elsewhere, not in a consumer group",
        ),
        (
            altered("stages", lambda row: row | {"positions": "each"}),
            "stage s marks each input as processed, and commits no offsets",
        ),
        (
            altered("replicas", lambda row: None if row["tp"] == 0 else row),
            "the log of its leader was not read",
        ),
        (altered("replicas", of_inputs(damaged="00.log")), "the log of its leader is damaged"),
        (altered("replicas", of_inputs(log_end=1)), "the committed offset is above the log end"),
        (
            altered("replicas", of_inputs(log_start=3)),
            "the log begins at offset 3, and the log entries before it were deleted",
        ),
        (
            altered("replicas", of_inputs(high_watermark=4)),
            "the high watermark is 4, so it is not known whether later log entries remain",
        ),
        (lambda history: history.commit_offset(None), "the committed offset was deleted"),
        (
            altered("batches", lambda row: None if (row["tp"], row["base_offset"]) == (0, 3) else row),
            "the log lacks 1 of these 3 log entries",
        ),
        (
            altered("records", lambda row: None if row["sentinel"] else row),
            "the final reader did not read the sentinel, which may be one of the records",
        ),
    ],
)
def test_what_the_evidence_cannot_show_is_not_known(
    tmp_path: Path, change: Callable[[History], object], why: str
) -> None:
    history = History()
    history.feed(4)
    history.transact(0, 1)
    change(history)
    row = only_row(tmp_path, history)
    assert row.entries is None
    assert row.not_known == why
    assert row.between == f"not known: {why}"


def test_a_compacted_topic_is_not_known_where_it_lacks_records(tmp_path: Path) -> None:
    history = compacted(History())
    history.feed(3)
    in_log = {(history.tp["a"], 2)}
    history.alter(
        "batches", lambda row: row | {"count": 0} if (row["tp"], row["base_offset"]) in in_log else row
    )
    history.commit_offset(1)
    row = only_row(tmp_path, history)
    assert row.not_known == "the log lacks 1 of these 3 log entries, because its topic is compacted"


def test_a_compacted_topic_without_gaps_is_known(tmp_path: Path) -> None:
    history = compacted(History())
    history.feed(3)
    history.commit_offset(3)
    assert only_row(tmp_path, history).between == SENTINEL


def test_a_cluster_that_refuses_the_offset_commits_is_named_with_its_answer(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    history.transact(0)
    history.alter("replicas", lambda row: None if row["tp"] == history.tp[OFFSETS] else row)
    write_store(tmp_path, [(1, history)], log=True)
    RunMetadata(refused_logs={OFFSETS: "TOPIC_AUTHORIZATION_FAILED"}).save(tmp_path / "metadata.json")
    lag = measure_lag(RunTables(tmp_path))
    assert lag.rows[0].end == 2
    assert lag.summary == (
        "It is not known whether anything is left: a/0: the log of __consumer_offsets, which has the committed "
        "offsets, was not read: TOPIC_AUTHORIZATION_FAILED."
    )


def test_a_run_without_broker_logs_is_not_known(tmp_path: Path) -> None:
    history = History()
    history.feed(1)
    lag = measure_lag(RunTables(write_store(tmp_path, [(1, history)], log=False)))
    assert lag == Lag(not_known=NO_LOGS)
    assert not lag.is_left


@pytest.mark.parametrize("table", ["history/stages", "history/records", "log/batches", "log/offsets"])
def test_a_damaged_table_is_named_and_raises_nothing(tmp_path: Path, table: str) -> None:
    history = History()
    history.feed(1)
    write_store(tmp_path, [(1, history)], log=True)
    (tmp_path / f"{table}.parquet").write_bytes(b"PAR1")
    assert f"{table}.parquet cannot be read" in measure_lag(RunTables(tmp_path)).summary


def test_tables_that_have_a_log_entry_twice_prove_nothing(tmp_path: Path) -> None:
    history = History()
    history.followers = 1
    history.feed(1)
    history.alter("batches", lambda row: row | {"leader": True})
    assert only_row(tmp_path, history).not_known == "the tables have log entries twice"


def test_what_is_known_is_summed_up_beside_what_is_not(tmp_path: Path) -> None:
    history = History(inputs="ab")
    history.feed(1)
    history.transact(0)
    history.alter("replicas", lambda row: None if row["tp"] == history.tp["b"] else row)
    assert lag_of(tmp_path, history).summary == (
        "Nothing is left where it is known: each group has processed all committed inputs. The lag that tools show is "
        "not zero, because the last committed offsets are followed by 1 sentinel, which Fencepost wrote and no group "
        "processes. It is not known whether anything is left in 1 of 2 partitions: b/0: the log of its leader was not "
        "read."
    )


def test_the_worst_rows_are_kept_and_all_are_counted() -> None:
    """First what is left, then what is not known, then the largest lag."""
    harmless = [PartitionLag("s", "g", "a", n, 1, n, EntryCounts(commit_markers=n)) for n in range(MOST_ROWS)]
    unknown = PartitionLag("s", "g", "b", 0, not_known="it was not read")
    left = [PartitionLag("s", "g", "c", n, 1, n, EntryCounts(committed_records=n)) for n in (1, 2)]
    lag = Lag.of([*harmless, unknown, *left])
    assert [row.name for row in lag.rows[:4]] == ["c/2", "c/1", "b/0", f"a/{MOST_ROWS - 1}"]
    assert (len(lag.rows), lag.more_rows, lag.unknown_rows) == (MOST_ROWS, 3, 1)
    assert lag.entries.committed_records == 3
    assert lag.entries.commit_markers == sum(range(MOST_ROWS))


def test_a_reason_that_no_shown_row_has_is_in_the_summary() -> None:
    left = [PartitionLag("s", "g", "a", n, 0, 9, EntryCounts(committed_records=9)) for n in range(MOST_ROWS)]
    unknown = PartitionLag("s", "g", "b", 0, not_known="it was not read")
    assert "in 1 of 51 partitions: b/0: it was not read." in Lag.of([*left, unknown]).summary


def test_a_lag_survives_the_round_trip_through_json(tmp_path: Path) -> None:
    history = History(inputs="ab")
    history.feed(4)
    history.transact(0, 1)
    history.transact(2, 3, offsets_fate="open")
    history.alter("replicas", lambda row: None if row["tp"] == history.tp["b"] else row)
    lag = lag_of(tmp_path, history)
    assert decode(json.loads(json.dumps(encode(lag))), Lag) == lag
    assert decode(encode(Lag(not_known=NO_LOGS)), Lag) == Lag(not_known=NO_LOGS)
