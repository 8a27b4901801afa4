"""End, last stable offset and lag of partitions over time."""

from pathlib import Path

import numpy as np

from harness.record.timeline.partition_offsets import (
    PartitionLog,
    Positions,
    first_waiting,
    greatest_lags,
    group_positions,
    lag_at,
    lag_by_second,
    lso_by_second,
    partition_logs,
    sorted_times,
)
from tests.support.log_tables import IN, OFFSETS, OUT, Row, batch, marker, offset_commit, plain, write_run

SECOND = 1_000_000_000
FOREVER = np.iinfo(np.int64).max


def log_of(folder: Path, *batches: Row, end_s: float = 100.0) -> PartitionLog:
    return partition_logs(write_run(folder, batches=batches), [OUT], end_s)[OUT]


def still_s(log: PartitionLog) -> list[tuple[float, float | None]]:
    spans = zip(*(times.tolist() for times in log.still), strict=True)
    return [(begin / SECOND, None if end == FOREVER else end / SECOND) for begin, end in spans]


def test_the_lso_is_the_first_record_of_the_first_open_transaction(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        batch(OUT, 0, 1, 2),
        batch(OUT, 2, 2, 3, producer=8),
        marker(OUT, 5, 3),
        plain(OUT, 6, 4),
        marker(OUT, 7, 5, "abort", producer=8),
    )
    assert log.lso.tolist() == [0, 0, 2, 2, 8]
    assert log.end.tolist() == [2, 5, 6, 7, 8]
    assert log.readable.tolist() == [
        0,
        0,
        2,
        2,
        7,
    ]  # the aborted records are never received, and no marker is
    assert log.commits_ns.tolist() == [3 * SECOND, 4 * SECOND]


def test_the_first_marker_of_the_same_producer_decides(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        batch(OUT, 0, 1),
        marker(OUT, 1, 2, producer=8),  # of another producer, without data
        marker(OUT, 2, 3, "abort"),
        marker(OUT, 3, 9, "commit"),  # a repeated marker
    )
    assert log.lso.tolist() == [0, 0, 3, 4]
    assert log.commits_ns.tolist() == []


def test_the_batches_of_followers_and_of_other_partitions_do_not_count(tmp_path: Path) -> None:
    rows = [
        batch(OUT, 0, 1),
        marker(OUT, 1, 2),
        batch(OUT, 2, 3, leader=False),  # not replicated: it was lost when the leader changed
        plain(IN, 0, 5, 50),
        plain(IN, 50, 5, 50),
    ]
    log = log_of(tmp_path, *rows[::-1])
    assert (log.end.tolist(), log.lso.tolist()) == ([1, 2], [0, 2])


def test_the_lso_stands_still_from_the_first_open_record_to_its_marker(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        plain(OUT, 0, 1),
        batch(OUT, 1, 2),
        batch(OUT, 2, 4, producer=8),
        marker(OUT, 3, 6, producer=8),
        marker(OUT, 4, 7),
        batch(OUT, 5, 8),
    )
    assert still_s(log) == [(2, 7), (8, None)]


def test_the_lso_moves_from_one_open_transaction_to_the_next(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        batch(OUT, 0, 1),
        batch(OUT, 1, 2, producer=8),
        marker(OUT, 2, 3),
        marker(OUT, 3, 5, producer=8),
    )
    assert still_s(log) == [(1, 3), (3, 5)]


def test_a_partition_whose_end_does_not_move_does_not_stand_still(tmp_path: Path) -> None:
    assert still_s(log_of(tmp_path, plain(OUT, 0, 1), plain(OUT, 1, 90))) == []


def test_a_time_stamp_outside_the_run_or_before_the_last_one_is_the_last_one(tmp_path: Path) -> None:
    rows = [plain(OUT, 0, -50), plain(OUT, 1, 3), plain(OUT, 2, 2), plain(OUT, 3, 5000), plain(OUT, 4, 4)]
    log = log_of(tmp_path, *rows, plain(OUT, 5, 5, max_timestamp_ms=-1))
    assert (log.time_ns / SECOND).tolist() == [0, 3, 3, 3, 4, 4]


def test_a_run_without_batches_in_a_partition_has_no_log_of_it(tmp_path: Path) -> None:
    assert partition_logs(write_run(tmp_path, batches=[]), [OUT]) == {}
    assert partition_logs(write_run(tmp_path, batches=[plain(IN, 0, 1)]), [OUT]) == {}


def test_an_offset_commit_takes_effect_with_the_marker_of_its_transaction(tmp_path: Path) -> None:
    t = write_run(
        tmp_path,
        batches=[
            batch(OFFSETS, 0, 1, 2),
            marker(OFFSETS, 2, 3),
            batch(OFFSETS, 3, 4),
            marker(OFFSETS, 4, 5, "abort"),
            plain(OFFSETS, 5, 6),
            batch(OFFSETS, 6, 7),  # still open
        ],
        offsets=[
            offset_commit(6, 40, 7),
            offset_commit(5, 15, 6, transactional=False),
            offset_commit(3, 20, 4),
            offset_commit(1, 10, 1),
            offset_commit(0, 5, 1, tp=OUT, group="h"),
            offset_commit(5, None, 6, transactional=False),  # a tombstone
        ],
    )
    positions = group_positions(t, partition_logs(t, [OFFSETS]))
    assert {
        key: list(zip((own.time_ns / SECOND).tolist(), own.committed.tolist(), strict=True))
        for key, own in positions.items()
    } == {("g", IN): [(3, 10), (6, 15)], ("h", OUT): [(3, 5)]}


def test_a_commit_in_a_log_that_is_not_stored_counts_only_outside_transactions(tmp_path: Path) -> None:
    commits = [offset_commit(0, 5, 1), offset_commit(1, 7, 2, transactional=False)]
    t = write_run(tmp_path, batches=[], offsets=commits)
    assert group_positions(t, {})["g", IN].committed.tolist() == [7]
    assert group_positions(write_run(tmp_path, offsets=[]), {}) == {}


NO_COMMIT = Positions(np.empty(0, np.int64), np.empty(0, np.int64))


def ns(*seconds: float) -> np.ndarray:
    return np.array([round(at * SECOND) for at in seconds], np.int64)


def read(folder: Path, batches: list[Row], commits: list[Row]) -> tuple[PartitionLog, Positions]:
    t = write_run(folder, batches=batches, offsets=commits)
    logs = partition_logs(t, [IN])
    return logs[IN], group_positions(t, logs).get(("g", IN), NO_COMMIT)


def committed(log_offset: int, offset: int, at_s: float) -> Row:
    return offset_commit(log_offset, offset, at_s, transactional=False)


def test_lag_grows_with_the_inputs_and_shrinks_with_the_commits(tmp_path: Path) -> None:
    log, own = read(
        tmp_path, [plain(IN, 0, 1, 2), plain(IN, 2, 3.5, 4)], [committed(0, 2, 3), committed(1, 6, 5)]
    )
    assert lag_at(log, own, ns(0.9, 1, 2.9, 3, 3.5, 4, 5, 9)).tolist() == [0, 2, 2, 0, 4, 4, 0, 0]
    assert first_waiting(log, own, *ns(0, 3)) == (SECOND, 0)
    assert first_waiting(log, own, *ns(2, 3)) == (2 * SECOND, 0)
    assert first_waiting(log, own, *ns(3, 5)) == (3.5 * SECOND, 2)
    assert first_waiting(log, own, *ns(3, 3.5)) is None
    assert first_waiting(log, own, *ns(5, 900)) is None


def test_a_marker_and_aborted_records_behind_the_last_commit_are_no_lag(tmp_path: Path) -> None:
    rows = [batch(IN, 0, 1, 2), marker(IN, 2, 2), batch(IN, 3, 3, 5), marker(IN, 8, 4, "abort")]
    log, own = read(tmp_path, rows, [committed(0, 2, 2.5)])
    assert lag_at(log, own, ns(1, 2, 2.5, 3, 4)).tolist() == [0, 2, 0, 0, 0]
    assert first_waiting(log, own, *ns(2.5, 900)) is None


def test_the_first_input_that_waits_is_behind_aborted_records(tmp_path: Path) -> None:
    rows = [plain(IN, 0, 1), batch(IN, 1, 2, 5), marker(IN, 6, 3, "abort"), plain(IN, 7, 4)]
    log, own = read(tmp_path, rows, [committed(0, 1, 1.5)])
    assert first_waiting(log, own, *ns(1.5, 900)) == (4 * SECOND, 7)


def test_records_from_before_the_run_do_not_wait(tmp_path: Path) -> None:
    log, own = read(tmp_path, [plain(IN, 0, -500, 90), plain(IN, 90, 2)], [])
    assert lag_at(log, own, ns(0, 1, 2)).tolist() == [0, 0, 1]
    assert first_waiting(log, own, *ns(0, 900)) == (2 * SECOND, 90)


def test_the_greatest_lag_may_be_that_at_the_begin_of_a_time(tmp_path: Path) -> None:
    rows = [plain(IN, 0, 1.2, 3), plain(IN, 3, 1.4, 2), plain(IN, 5, 3.5)]
    log, own = read(tmp_path, rows, [committed(0, 4, 1.3), committed(1, 6, 4)])
    assert greatest_lags(log, own, ns(0, 1, 2, 3, 4, 5)).tolist() == [0, 3, 1, 2, 0]
    assert greatest_lags(log, own, ns(1.35, 1.4)).tolist() == [0]
    assert greatest_lags(log, own, ns(7)).tolist() == []


def test_times_are_sorted_and_each_is_kept_once() -> None:
    assert sorted_times(ns(3, 1), ns(), ns(2, 3)).tolist() == ns(1, 2, 3).tolist()
    assert sorted_times().tolist() == []


def test_the_tables_by_second_have_the_last_lso_and_the_greatest_lag(tmp_path: Path) -> None:
    batches = [plain(IN, 0, 1.1, 3), plain(IN, 3, 1.4), batch(IN, 4, 2.5), marker(IN, 5, 4)]
    t = write_run(tmp_path, batches=batches, offsets=[offset_commit(0, 4, 1.9, transactional=False)])
    logs = partition_logs(t, [IN])
    assert lso_by_second(logs).to_pylist() == [
        {"tp": IN, "second": 1, "end": 4, "lso": 4},
        {"tp": IN, "second": 2, "end": 5, "lso": 4},
        {"tp": IN, "second": 4, "end": 6, "lso": 6},
    ]
    positions = group_positions(t, logs)
    assert [tuple(row.values()) for row in lag_by_second(logs, positions).to_pylist()] == [
        ("g", IN, 1, 4),
        ("g", IN, 2, 0),
        ("g", IN, 4, 1),
    ]
    assert (len(lso_by_second({})), len(lag_by_second({}, positions))) == (0, 0)
