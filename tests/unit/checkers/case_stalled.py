"""Stalled: the bound itself, the order of commits, and what is told of the longest time.

Time-outs of 10 s in the transaction log and 2 s of the session: the bound is 27 s.
"""

from cases import case
from histories import History

SECOND = 1_000_000_000


def _healed(h: History) -> None:
    h.healed_ns, h.session_ms = 0, 2_000


def _ended(h: History, name: str) -> int:
    """When an operation returned."""
    return int(next(row["return_ns"] for row in h.rows["ops"] if row["name"] == name))


def _commits_after(h: History, late_ns: int) -> None:
    """w commits input 0, and so long afterwards input 1."""
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 26 * SECOND
    h.take(1, return_ns=_ended(h, "w:0") + late_ns)


@case()
def a_group_that_commits_at_the_bound_is_not_stalled(h: History) -> None:
    _commits_after(h, 27 * SECOND)


@case()
def an_input_that_waits_for_just_the_bound_shows_no_stall(h: History) -> None:
    """It came when the group had committed nothing for five seconds, having nothing to do."""
    _healed(h)
    h.feed(1)
    h.take(0)
    h.clock += 5 * SECOND
    h.feed(1)
    h.clock += 26 * SECOND
    h.take(1, return_ns=_ended(h, "f:1") + 27 * SECOND)


@case(stalled=1, tells={"stalled": {"still_s": 27.5, "bound_s": 27.0, "input": {"offset": 1}}})
def a_group_that_commits_half_a_second_later_is_stalled_for_so_long(h: History) -> None:
    _commits_after(h, 27 * SECOND + SECOND // 2)


@case()
def a_group_that_commits_again_and_again_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(3)
    for at in range(3):
        h.take(at)
        h.clock += 20 * SECOND


@case(stalled=1, tells={"stalled": {"input": {"offset": 1}, "writer": {"op": 1}}})
def of_several_inputs_that_wait_the_one_that_waits_longest_is_told(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 5 * SECOND
    h.feed(1)
    h.clock += 30 * SECOND
    h.take(1, 2)


@case()
def commits_count_in_the_order_of_their_ends(h: History) -> None:
    """w1 is at work on input 1 for long; meanwhile w2 commits input 2."""
    _healed(h)
    h.feed(3)
    h.take(0, worker="w1")
    h.op("w2", "init")
    began = h.clock
    slow = h.take(1, worker="w1")
    h.clock += 15 * SECOND
    h.take(2, worker="w2", pid=2)
    h.rows["ops"][slow.op]["return_ns"] = began + 30 * SECOND


@case(stalled=1)
def who_begins_in_the_moment_of_the_heal_is_there_to_work(h: History) -> None:
    _healed(h)
    h.feed(1)
    first = h.op("w", "init")
    h.healed_ns = h.rows["ops"][first.op]["call_ns"]
    h.clock += 28 * SECOND
    h.take(0)
