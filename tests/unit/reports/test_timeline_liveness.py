"""How long a fault hurt: windows, gaps, and when a run was back to normal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from checkers.recovery.liveness import (
    Group,
    RunProgress,
    Window,
    fault_windows,
    liveness,
    longest_gap_ns,
    read_progress,
)
from harness.model.pipeline import JOB, PipelineSpec, StageSpec, TopicSpec
from harness.model.vocabulary import WARM_UP
from harness.record.timeline.partition_offsets import PartitionLog, Positions
from harness.results.recovery import Liveness
from harness.results.run_metadata import RunPhase
from harness.results.verdict import FaultReport
from reports.liveness_text import describe_recovery
from tests.support.log_tables import (
    IN,
    OFFSETS,
    OUT,
    batch,
    marker,
    offset_commit,
    plain,
    state,
    write_run,
)

SECOND = 1_000_000_000
FAULT = FaultReport("kill-broker", "broker 2", 20.0, 28.0, True, "proof", "broker 2 was killed")
PIPELINE = PipelineSpec(
    "billing",
    (TopicSpec("in", 1), TopicSpec("out", 1)),
    (StageSpec("bill", ("in",), "g", writes=("out",), journaled=False),),
)
PHASES = (RunPhase("faults", 5.0, 60.0), RunPhase("drain", 60.0, 70.0))


def ns(*seconds: float) -> np.ndarray:
    return np.array([round(at * SECOND) for at in seconds], np.int64)


def each(first: float, last: float, step_s: float = 0.1) -> list[float]:
    """Times in equal steps."""
    return (np.arange(round((last - first) / step_s)) * step_s + first).tolist()


def window(start_s: float = 20.0, end_s: float = 40.0, heal_s: float | None = 28.0) -> Window:
    return Window(
        round(start_s * SECOND), None if heal_s is None else round(heal_s * SECOND), round(end_s * SECOND)
    )


def of_commits(*times: float, latency_ms: float | Sequence[float] = 5.0, **more: Any) -> RunProgress:
    latencies = np.full(len(times), 0, np.int64) + np.array(np.array(latency_ms) * 1e6, np.int64)
    return RunProgress(ns(*times), ns(*times), latencies, **more)


def windows_s(
    *faults: FaultReport, load_end_s: float = 60.0, last_s: float = 65.0
) -> list[tuple[float, float] | None]:
    found = fault_windows(faults, round(load_end_s * SECOND), round(last_s * SECOND))
    return [each and (each.start_ns / SECOND, each.end_ns / SECOND) for each in found]


def test_a_window_ends_with_the_next_fault_and_the_last_one_with_the_load() -> None:
    second = structs.replace(FAULT, start_s=40.0, end_s=48.0)
    assert windows_s(FAULT, second) == [(20, 40), (40, 60)]
    assert windows_s(second, FAULT) == [(40, 60), (20, 40)]


def test_a_window_does_not_end_before_its_own_heal() -> None:
    second = structs.replace(FAULT, start_s=24.0, end_s=30.0)
    assert windows_s(FAULT, second) == [(20, 28), (24, 60)]


def test_a_fault_that_did_not_act_has_no_window_and_ends_none() -> None:
    assert windows_s(FAULT, structs.replace(FAULT, start_s=30.0, acted=False)) == [(20, 60), None]


def test_a_fault_that_is_healed_after_the_load_ends_with_the_last_commit() -> None:
    late = structs.replace(FAULT, end_s=62.0)
    assert windows_s(late) == [(20, 65)]
    assert windows_s(late, last_s=30.0) == [(20, 62)]  # no commit at all must not shorten the gap
    assert windows_s(structs.replace(FAULT, end_s=60.0)) == [(20, 60)]
    assert windows_s(structs.replace(FAULT, end_s=None), last_s=30.0) == [(20, 60)]


def test_a_fault_that_is_injected_after_the_load_has_an_empty_window() -> None:
    assert windows_s(structs.replace(FAULT, start_s=61.0, end_s=61.5), last_s=60.5) == [(61, 61.5)]


def test_the_first_commits_are_counted_from_the_injection_and_from_the_heal() -> None:
    measured = liveness(of_commits(19.9, 22.5, 30.25), window())
    assert (measured.first_commit_s, measured.first_commit_after_heal_s) == (2.5, 2.25)
    at_once = liveness(of_commits(20.0, 28.0), window())
    assert (at_once.first_commit_s, at_once.first_commit_after_heal_s) == (0.0, 0.0)
    never = liveness(of_commits(19.9), window())
    assert (never.first_commit_s, never.first_commit_after_heal_s) == (None, None)
    assert liveness(of_commits(30.0), window(heal_s=None)).first_commit_after_heal_s is None


def test_the_longest_gap_begins_and_ends_within_the_window() -> None:
    assert longest_gap_ns(ns(10, 22, 25, 39, 90), *ns(20, 40)) == 14 * SECOND
    assert (
        longest_gap_ns(ns(10, 90), *ns(20, 40)) == 20 * SECOND
    )  # neither before the fault nor after the window
    assert longest_gap_ns(ns(20, 40), *ns(20, 40)) == 20 * SECOND
    assert longest_gap_ns(ns(), *ns(20, 20)) == 0


def test_the_worst_partition_is_one_that_had_commits_before_the_fault() -> None:
    outputs = {"out/0": ns(19, 22, 30, 39), "out/1": ns(19, 26, 39), "out/2": ns(21), "out/3": ns()}
    measured = liveness(of_commits(*each(1, 40), outputs=outputs), window())
    assert (measured.worst_partition, measured.worst_partition_gap_s) == ("out/1", 13.0)
    without = liveness(of_commits(*each(1, 40), outputs={"out/2": ns(20)}), window())
    assert (without.worst_partition, without.worst_partition_gap_s) == (None, None)


def test_the_lso_stands_still_only_within_the_window() -> None:
    still = {"out/0": (ns(10, 21), ns(24, 23)), "out/1": (ns(39), np.array([2**63 - 1]))}
    measured = liveness(of_commits(1, still=still), window())
    assert (measured.lso_partition, measured.lso_still_s) == ("out/0", 4.0)
    for nothing in ({}, {"out/0": (ns(10, 50), ns(20, 60))}):
        measured = liveness(of_commits(1, still=nothing), window())
        assert (measured.lso_partition, measured.lso_still_s) == (None, 0.0)
    assert liveness(of_commits(1), window()).lso_still_s is None


def rate_back(*times: float, **more: Any) -> float | None:
    return liveness(of_commits(*times), window(**more)).rate_back_s


def test_the_rate_is_back_after_two_seconds_in_its_band() -> None:
    before, after = each(5, 20), each(26, 40)
    assert rate_back(*before, *after) == 6.0
    assert rate_back(*before, *each(23, 24), *after) == 6.0  # one second is not enough
    assert rate_back(*before, *each(23, 25), *after) == 3.0
    assert rate_back(*before, *each(26, 40, 1 / 8)) == 6.0  # 8 a second of 10 are in the band
    assert rate_back(*before, *each(26, 40, 1 / 7)) is None  # 7 are not
    assert rate_back(*before, *each(26, 40, 1 / 40)) == 6.0  # a higher rate is better
    assert rate_back(*each(5, 40)) == 0.0


def test_the_rate_is_compared_with_the_ten_seconds_before_the_fault() -> None:
    assert rate_back(*each(0, 9, 0.01), *each(10, 20), *each(20, 40)) == 0.0
    assert (
        rate_back(*each(10, 14), *each(14, 40, 1)) == 0.0
    )  # the median of the seconds is 1, their mean is more


def test_without_three_seconds_of_commits_before_the_fault_it_is_not_known_when_the_rate_was_back() -> None:
    assert rate_back(*each(17, 40)) == 0.0
    assert rate_back(*each(17.1, 40)) is None
    assert rate_back() is None


def test_seconds_that_the_window_cuts_do_not_count() -> None:
    assert rate_back(*each(5, 20), *each(26, 40), end_s=28.0) == 6.0
    assert rate_back(*each(5, 20), *each(26, 40), end_s=27.9) is None


def latency_back(latencies: list[float], **more: Any) -> float | None:
    times = each(5, 5 + len(latencies), 1)
    return liveness(of_commits(*times, latency_ms=latencies, **more), window()).latency_back_s


def test_the_latency_is_back_if_the_median_of_a_second_is_in_its_band() -> None:
    assert latency_back([4.0] * 15 + [50.0] * 3 + [5.0] * 17) == 3.0
    assert latency_back([4.0] * 15 + [5.1] * 20) is None
    assert latency_back([4.0] * 15 + [1.0] * 20) == 0.0
    assert latency_back([4.0] * 15 + [5.1] * 20, resolution_ns=1_500_000) == 0.0


def test_a_second_without_a_commit_is_not_in_the_band_of_the_latency() -> None:
    progress = of_commits(*each(5, 20, 1), *each(23, 40, 1))
    assert liveness(progress, window()).latency_back_s == 3.0


def test_without_known_latencies_it_is_not_known_when_they_were_back() -> None:
    assert latency_back([-1.0] * 35) is None


def lag_back(inputs: Sequence[float], commits: dict[float, int] | None = None) -> float | None:
    """One input arrives at each time, and the group commits these offsets. The median before the fault is 8."""
    n = len(inputs)
    base, data = np.arange(n), np.ones(n, np.bool_)
    log = PartitionLog(base, ns(*inputs), base + 1, base + 1, base + 1, data, data, ns(*inputs))
    own = Positions(ns(*(commits or {})), np.array(list((commits or {}).values()), np.int64))
    progress = of_commits(*each(5, 40), groups={"g": Group(own.time_ns, {"in/0": (log, own)})})
    return liveness(progress, window()).lag_back_s


EIGHT = [5.0] * 8


def test_the_lag_is_back_if_the_greatest_of_a_second_is_in_its_band() -> None:
    assert lag_back([*EIGHT, *[20.5] * 90], {24.2: 88}) == 5.0
    assert lag_back([*EIGHT, *[20.5] * 90], {24.2: 87}) is None
    assert lag_back(EIGHT, {20.5: 8}) == 0.0
    assert lag_back([*EIGHT, 20.5, 20.5]) == 0.0


def test_one_more_record_is_no_lag() -> None:
    assert lag_back([5.0, 20.5], {5.5: 1}) == 0.0
    assert lag_back([5.0, 20.5, 20.5], {5.5: 1}) is None


def test_the_lags_of_all_partitions_and_groups_are_added() -> None:
    base, data = np.arange(6), np.ones(6, np.bool_)
    times = ns(*[5] * 4, 20.5, 20.5)
    log = PartitionLog(base, times, base + 1, base + 1, base + 1, data, data, times)
    own = Positions(ns(), ns())
    for count, back in ((1, None), (2, None)):  # 4 and 6, 8 and 12: neither is within a quarter
        groups = {"g": Group(ns(), {f"in/{n}": (log, own) for n in range(count)})}
        assert liveness(of_commits(*each(5, 40), groups=groups), window()).lag_back_s is back


def test_without_groups_or_earlier_commits_the_lag_is_not_known() -> None:
    assert liveness(of_commits(*each(5, 40)), window()).lag_back_s is None
    assert liveness(of_commits(*each(19, 40)), window()).lag_back_s is None


def test_counts_are_those_of_the_window() -> None:
    counted = of_commits(1, aborted_ns=ns(19.9, 20, 40, 40.1), fenced_ns=ns(), rebalances_ns=ns(21))
    measured = liveness(counted, window())
    assert (measured.aborted, measured.fenced, measured.rebalances) == (2, 0, 1)
    assert liveness(of_commits(1), window()).aborted is None


def test_the_progress_of_a_program_without_journals_comes_from_the_logs(tmp_path: Path) -> None:
    t = write_run(
        tmp_path,
        batches=[
            *(plain(IN, n, 10 + n, 1) for n in range(4)),
            plain(IN, 4, 66),  # after the feeder was stopped
            batch(OUT, 0, 11),
            marker(OUT, 1, 11.5),
            marker(OUT, 2, 13, "abort", producer=8),
            batch(OFFSETS, 0, 11),
            marker(OFFSETS, 1, 11.6),
        ],
        offsets=[offset_commit(0, 1, 11)],
        transactions=[
            state("Ongoing", 11, 0),
            state("PrepareCommit", 11.4, 1),
            state("CompleteCommit", 11.7, 2),
            state("Ongoing", 12, 3),
            state("CompleteAbort", 13, 4),
            state("CompleteAbort", 9, 5, own=f"{WARM_UP}-1", timeout_ms=30_000),
        ],
    )
    progress = read_progress(t, PIPELINE, PHASES, session_ms=2_000)
    assert (progress.commits_ns / SECOND).tolist() == [11.5, 11.6, 11.7]
    assert (progress.ended_ns / SECOND).tolist() == [11.7]
    assert (progress.latencies_ns / 1e6).tolist() == [pytest.approx(300, abs=1)]
    assert {name: (times / SECOND).tolist() for name, times in progress.outputs.items()} == {"out/0": [11.5]}
    assert (progress.groups["g"].commits_ns / SECOND).tolist() == [11.6]
    log, own = progress.groups["g"].partitions["in/0"]
    assert (len(log.base), own.committed.tolist()) == (5, [1])
    assert progress.load_end_ns == 13 * SECOND
    assert progress.aborted_ns is not None
    assert (progress.aborted_ns / SECOND).tolist() == [13]
    assert progress.still is not None
    assert progress.still.keys() == {"in/0", "out/0"}
    assert progress.bound_ns == (30 + 2 + 15) * SECOND
    assert (progress.fenced_ns, progress.rebalances_ns) == (None, None)
    assert read_progress(t, PIPELINE, PHASES).bound_ns == (30 + 45 + 15) * SECOND
    (stage,) = PIPELINE.stages
    job = replace(PIPELINE, stages=(replace(stage, kind=JOB, every_s=7.5),))
    assert read_progress(t, job, PHASES).bound_ns == 97.5 * SECOND


def test_inputs_with_old_time_stamps_do_not_tell_when_the_load_ended(tmp_path: Path) -> None:
    t = write_run(tmp_path, batches=[plain(IN, 0, -9000)], offsets=[], transactions=[])
    assert read_progress(t, PIPELINE, PHASES).load_end_ns == 60 * SECOND
    assert read_progress(t, PIPELINE, ()).load_end_ns is None


def test_a_run_without_logs_has_no_commit_no_lso_and_no_bound(tmp_path: Path) -> None:
    progress = read_progress(write_run(tmp_path), PIPELINE, PHASES)
    assert (progress.still, progress.aborted_ns, progress.bound_ns) == (None, None, None)
    assert (len(progress.commits_ns), progress.groups) == (0, {})


def test_the_progress_of_a_workload_without_logs_comes_from_its_journals(tmp_path: Path) -> None:
    def op(n: int, at_s: float, **more: Any) -> dict[str, Any]:
        row = {"op": n, "stage": "bill", "f": "txn", "outcome": "ok", "asked": "commit", "fenced": False}
        times = {"call_ns": at_s - 0.5, "commit_ns": at_s - 0.25, "return_ns": at_s}
        return row | {name: round(at * SECOND) for name, at in times.items()} | more

    t = write_run(
        tmp_path,
        ops=[op(1, 12), op(2, 11), op(3, 13, outcome="fail", fenced=True), op(4, 14, f="poll")],
        sends=[{"op": 1, "tp": OUT}, {"op": 2, "tp": OUT}, {"op": 3, "tp": OUT}],
        assignments=[
            {"journal": "bill-1.0", "process": 1, "time_ns": SECOND, "gained": True, "tp": tp}
            for tp in (0, 1)
        ],
    )
    (tmp_path / "run.toml").write_text("[run]\nwall_ms_at_zero = 0.0\n")
    progress = read_progress(t, PIPELINE, PHASES)
    assert (progress.commits_ns / SECOND).tolist() == [11, 12]
    assert (progress.latencies_ns / SECOND).tolist() == [0.25, 0.25]
    assert progress.outputs.keys() == {"out/0"}
    assert progress.fenced_ns is not None and progress.rebalances_ns is not None
    assert (progress.fenced_ns.tolist(), progress.rebalances_ns.tolist()) == ([13 * SECOND], [SECOND])
    assert liveness(progress, window(11.5, 13)) == Liveness(
        first_commit_s=0.5,
        longest_gap_s=1.0,
        worst_partition="out/0",
        worst_partition_gap_s=1.0,
        fenced=1,
        rebalances=0,
        seconds_before=0,
        not_measured=("lag_back_s",),
    )


# What a sentence says must not contradict its own numbers.


@given(
    st.lists(st.integers(0, 600), min_size=1, max_size=40),
    st.integers(100, 400),
    st.integers(1, 200),
    st.booleans(),
)
def test_a_recovery_does_not_contradict_its_numbers(
    tenths: list[int], start: int, length: int, still: bool
) -> None:
    commits = ns(*(tenth / 10 for tenth in sorted(tenths)))
    arrivals, base = ns(*each(0, 60, 0.5)), np.arange(120)
    data = np.ones(120, np.bool_)
    log = PartitionLog(base, arrivals, base + 1, base + 1, base + 1, data, data, arrivals)
    own = commits[:1] if still else commits
    read = log, Positions(own, np.arange(len(own)))
    progress = RunProgress(
        commits, commits, np.full(len(commits), -1), groups={"g": Group(commits, {"in/0": read})}
    )
    found = liveness(progress, window(start / 10, (start + length) / 10, None))
    if found.first_commit_s is not None and found.longest_gap_s is not None:
        assert found.longest_gap_s >= found.first_commit_s
    assert "latency_back_s" in found.not_measured and found.latency_back_s is None
    text = describe_recovery(found)
    assert not ("stayed normal" in text and found.inputs_not_back)
    assert ("not back to normal" in text) == bool(found.normal_known and found.not_back)
    assert ("no commit followed" in text) == (found.first_commit_s is None)
    if found.slowest_input_s is not None and found.first_commit_s is not None:
        assert found.slowest_input_s >= found.first_commit_s
