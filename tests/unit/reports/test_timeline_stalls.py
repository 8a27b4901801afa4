"""Groups that stall: time-outs of 10 s in the transaction log and 2 s of the session, so the bound is 27 s.

The stages are ready at 5 s and stopped at 500 s. The commits of the group are offsets of the partition `in/0`, which
gets inputs at the times that a test names.
"""

from typing import Any

import numpy as np
from msgspec import structs

from checkers.recovery.liveness import Group, RunProgress
from checkers.recovery.measure import Stall, stalls
from harness.record.timeline.partition_offsets import PartitionLog, Positions
from harness.results.verdict import FaultReport

SECOND = 1_000_000_000
FAULT = FaultReport("kill-broker", "broker 2", 20.0, 28.0, True, "proof", "broker 2 was killed", halts=False)
POSTGRES = structs.replace(FAULT, halts=True, fault="kill-postgres")


def ns(*seconds: float) -> np.ndarray:
    return np.array([round(at * SECOND) for at in seconds], np.int64)


def group(inputs: list[float], commits: dict[float, int]) -> Group:
    """A group with an input at each of these times, that commits these offsets."""
    n = len(inputs)
    base, end, data = np.arange(n), np.arange(n) + 1, np.ones(n, np.bool_)
    log = PartitionLog(base, ns(*inputs), end, end, end, data, data, ns(*inputs))
    positions = Positions(ns(*commits), np.array(list(commits.values()), np.int64))
    return Group(ns(*commits), {"in/0": (log, positions)})


def found(
    *faults: FaultReport,
    bound_s: float | None = 27.0,
    span_s: tuple[float, float] = (5, 500),
    **groups: Group,
) -> list[Stall]:
    bound_ns = None if bound_s is None else round(bound_s * SECOND)
    progress = RunProgress(ns(), ns(), ns(), groups=groups, bound_ns=bound_ns)
    span_ns = (round(span_s[0] * SECOND), round(span_s[1] * SECOND))
    return stalls(progress, faults, span_ns)


def times(found: list[Stall]) -> list[tuple[float, float]]:
    return [(stall.from_ns / SECOND, stall.to_ns / SECOND) for stall in found]


def test_a_group_that_commits_nothing_for_longer_than_the_bound_is_stalled() -> None:
    (stall,) = found(FAULT, g=group([6, 7, 8], {10: 1, 60: 3}))
    assert stall == Stall(
        "g", 20 * SECOND, 60 * SECOND, 27 * SECOND, True, partition="in/0", offset=1, fault=FAULT
    )


def test_a_group_that_commits_at_the_bound_is_not_stalled() -> None:
    assert found(g=group([6, 7], {10: 1, 37: 2})) == []
    assert times(found(g=group([6, 7], {10: 1, 37.5: 2}))) == [(10, 37.5)]


def test_a_group_that_commits_again_and_again_is_not_stalled() -> None:
    assert found(g=group([6, 7, 8, 9], {10: 1, 30: 2, 50: 3, 70: 4})) == []


def test_a_group_without_anything_to_do_is_not_stalled() -> None:
    assert found(FAULT, g=group([6, 90], {10: 1, 91: 2})) == []
    assert found(g=group([6], {10: 1})) == []


def test_the_time_begins_with_the_input() -> None:
    assert found(g=group([6, 40], {10: 1, 67: 2})) == []
    assert times(found(g=group([6, 40], {10: 1, 67.5: 2}))) == [(40, 67.5)]


def test_an_input_that_arrives_with_the_commit_that_ends_the_time_has_not_waited() -> None:
    assert found(g=group([6, 90], {10: 1, 90: 2})) == []


def test_the_first_input_that_waits_is_named() -> None:
    (stall,) = found(g=group([6, 7, 20, 30], {10: 2, 60: 4}))
    assert (stall.from_ns, stall.offset) == (20 * SECOND, 2)


def test_a_group_that_never_commits_again_is_stalled_until_the_stages_were_stopped() -> None:
    (stall,) = found(g=group([6, 7], {10: 1}))
    assert (stall.to_ns, stall.committed, stall.fault) == (500 * SECOND, False, None)
    assert found(g=group([6, 7], {10: 1}), span_s=(5, 37)) == []


def test_a_group_that_never_committed_is_stalled_from_the_time_when_the_stages_were_ready() -> None:
    assert times(found(g=group([1], {}))) == [(5, 500)]


def test_a_fault_that_is_injected_begins_a_new_time() -> None:
    late = structs.replace(FAULT, start_s=40.0, end_s=41.0)
    assert found(FAULT, late, g=group([6, 7], {18: 1, 60: 2})) == []
    assert times(found(late, g=group([6, 7], {18: 1, 70: 2}))) == [(40, 70)]
    assert [stall.committed for stall in found(late, g=group([6, 7], {6: 1, 60: 2}))] == [False]


def test_a_fault_that_did_not_act_changes_nothing() -> None:
    idle = structs.replace(FAULT, start_s=30.0, acted=False)
    assert times(found(idle, g=group([6, 7], {18: 1, 60: 2}))) == [(18, 60)]


def test_the_time_during_a_fault_counts_unless_nothing_could_be_committed() -> None:
    own = group([6, 7], {10: 1, 50: 2})
    assert times(found(FAULT, g=own)) == [(20, 50)]
    assert found(POSTGRES, g=own) == []  # 30 s, of which 8 s without a database


def test_only_the_time_of_a_halting_fault_within_the_stall_is_added_to_the_bound() -> None:
    (stall,) = found(POSTGRES, g=group([6, 22], {10: 1, 60: 2}))
    assert stall.bound_ns == (27 + 6) * SECOND
    overlapping = structs.replace(POSTGRES, start_s=24.0, end_s=30.0)
    (stall,) = found(POSTGRES, overlapping, g=group([6, 7], {10: 1, 62: 2}))
    assert (stall.from_ns, stall.bound_ns) == (24 * SECOND, (27 + 6) * SECOND)
    never_healed = structs.replace(POSTGRES, end_s=None)
    assert found(never_healed, g=group([6, 7], {10: 1})) == []


def test_the_commits_of_another_group_are_no_commits_of_this_one() -> None:
    both: dict[str, Any] = {"g": group([6, 7], {10: 1, 60: 2}), "h": group([6, 7], {10: 1, 30: 2})}
    assert [stall.group for stall in found(**both)] == ["g"]


def test_without_known_time_outs_no_group_is_stalled() -> None:
    assert found(FAULT, bound_s=None, g=group([6, 7], {10: 1})) == []


def test_stalls_are_in_the_order_of_their_ends() -> None:
    both = {"a": group([6, 7], {10: 1, 90: 2}), "b": group([6, 7], {10: 1, 60: 2})}
    assert [stall.group for stall in found(**both)] == ["b", "a"]
