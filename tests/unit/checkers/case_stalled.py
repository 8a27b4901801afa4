"""Groups that stall.

Time-outs of 10 s in the transaction log and 2 s of the session: the bound is 27 s.
"""

from cases import case

from harness.model.vocabulary import Premise
from tests.support.histories import History

SECOND = 1_000_000_000


def _healed(h: History, at_s: float = 0.0) -> None:
    h.healed_ns, h.session_ms = int(at_s * SECOND), 2_000


@case(stalled=1)
def a_group_that_commits_nothing_for_longer_than_the_bound_is_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 27 * SECOND
    h.transact(1)


@case(not_checked=("stalled",))
def no_group_is_stalled_if_a_fault_may_leave_no_leader(h: History) -> None:
    a_group_that_commits_nothing_for_longer_than_the_bound_is_stalled(h)
    h.broken_premises = frozenset({Premise.LEADER_ALWAYS})


@case(
    not_checked=("lost-input", "reprocessed-input"), broken=("may destroy records that brokers had written",)
)
def where_logs_may_be_destroyed_a_run_is_not_valid(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.broken_premises = frozenset({Premise.WHOLE_LOGS})


@case()
def a_group_that_commits_within_the_bound_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 26 * SECOND
    h.transact(1)


@case()
def the_longest_time_out_counts(h: History) -> None:
    _healed(h)
    h.log_state(7, "Empty")
    h.rows["transactions"][-1]["timeout_ms"] = 30_000
    h.feed(2)
    h.transact(0)
    h.clock += 40 * SECOND
    h.transact(1)


@case()
def a_group_without_anything_to_do_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.transact(0)
    h.clock += 60 * SECOND
    h.feed(1)
    h.transact(1)


@case()
def a_group_that_stood_still_before_the_heal_is_not_stalled(h: History) -> None:
    _healed(h, 40)
    h.feed(2)
    h.transact(0)
    h.clock += 60 * SECOND
    h.transact(1)


@case()
def a_worker_that_began_late_was_not_there_to_work(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 60 * SECOND
    h.transact(1, worker="w2", pid=2)


@case()
def an_unacknowledged_input_does_not_wait(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 60 * SECOND
    h.transact(1)
    h.alter("ops", lambda row: row | {"outcome": "info"} if row["name"] == "f:1" else row)


@case(stalled=1)
def a_group_that_never_commits_again_is_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 20 * SECOND
    h.op("w", "init", "ok")
    for seconds in (8, 12):
        h.clock += seconds * SECOND
        h.op("w", "init", "info")


@case(stalled=1)
def aborted_records_below_waiting_inputs_are_passed_over(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.transact(0)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.feed(1)
    h.clock += 40 * SECOND
    h.op("w", "init", "info")


@case(stalled=1)
def a_failed_transaction_is_no_commit_of_the_group(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 20 * SECOND
    h.transact(1, outcome="fail")
    h.clock += 20 * SECOND
    h.transact(1)


@case(stalled=1)
def the_commits_of_another_stage_are_no_commits_of_this_one(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 20 * SECOND
    other = h.op("u", "txn", stage="t", group="k")
    h.rows["claims"].append({"op": other.op, "group": "k", "tp": h.tp["a"], "first": 1, "next": 1})
    h.clock += 20 * SECOND
    h.transact(1)


@case()
def a_worker_that_goes_on_with_nothing_left_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.transact(0)
    h.clock += 60 * SECOND
    h.op("w", "init", "info")


@case(stalled=1)
def without_a_session_time_out_that_of_kafka_counts(h: History) -> None:
    h.healed_ns = 0
    h.feed(3)
    h.transact(0)
    h.clock += 69 * SECOND
    h.transact(1)
    h.clock += 70 * SECOND
    h.transact(2)


@case(not_checked=("stalled",))
def a_run_that_does_not_say_when_it_was_healed_is_not_checked(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.clock += 100 * SECOND
    h.transact(1)


def _ended(h: History, name: str) -> int:
    """The time at which an operation returned."""
    return int(next(row["return_ns"] for row in h.rows["ops"] if row["name"] == name))


def _commits_after(h: History, late_ns: int) -> None:
    """w commits input 0, and this long afterwards input 1."""
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 26 * SECOND
    h.transact(1, return_ns=_ended(h, "w:0") + late_ns)


@case()
def a_group_that_commits_at_the_bound_is_not_stalled(h: History) -> None:
    _commits_after(h, 27 * SECOND)


@case()
def an_input_that_waits_for_just_the_bound_shows_no_stall(h: History) -> None:
    """An input came after the group had been without inputs, and so without commits, for five seconds."""
    _healed(h)
    h.feed(1)
    h.transact(0)
    h.clock += 5 * SECOND
    h.feed(1)
    h.clock += 26 * SECOND
    h.transact(1, return_ns=_ended(h, "f:1") + 27 * SECOND)


@case(stalled=1, examples={"stalled": {"still_s": 27.5, "bound_s": 27.0, "input": {"offset": 1}}})
def a_group_that_commits_half_a_second_later_is_stalled_for_so_long(h: History) -> None:
    _commits_after(h, 27 * SECOND + SECOND // 2)


@case()
def a_group_that_commits_again_and_again_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(3)
    for at in range(3):
        h.transact(at)
        h.clock += 20 * SECOND


@case(stalled=1, examples={"stalled": {"input": {"offset": 1}, "writer": {"op": 1}}})
def the_example_is_the_input_that_waits_longest(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.transact(0)
    h.clock += 5 * SECOND
    h.feed(1)
    h.clock += 30 * SECOND
    h.transact(1, 2)


@case()
def commits_count_in_the_order_of_their_ends(h: History) -> None:
    """w1 works on input 1 for a long time, while w2 commits input 2."""
    _healed(h)
    h.feed(3)
    h.transact(0, worker="w1")
    h.op("w2", "init")
    began = h.clock
    slow = h.transact(1, worker="w1")
    h.clock += 15 * SECOND
    h.transact(2, worker="w2", pid=2)
    h.rows["ops"][slow.op]["return_ns"] = began + 30 * SECOND


@case(stalled=1)
def a_worker_that_starts_at_the_heal_can_work(h: History) -> None:
    _healed(h)
    h.feed(1)
    first = h.op("w", "init")
    h.healed_ns = h.rows["ops"][first.op]["call_ns"]
    h.clock += 28 * SECOND
    h.transact(0)
