"""Runs in which it cannot be checked whether a group stalled. The findings are in test_timeline_stalls.py."""

from cases import case

from harness.model.vocabulary import Premise
from tests.support.histories import History


def _healed(h: History) -> None:
    h.healed = True
    h.feed(1)
    h.transact(0)


@case()
def a_run_with_logs_and_known_heals_is_checked(h: History) -> None:
    _healed(h)


@case(not_checked=("stalled",))
def no_group_is_stalled_if_a_fault_may_leave_no_leader(h: History) -> None:
    _healed(h)
    h.broken_premises = frozenset({Premise.LEADER_ALWAYS})


@case(not_checked=("stalled",))
def no_group_is_stalled_if_a_fault_changed_a_clock(h: History) -> None:
    _healed(h)
    h.broken_premises = frozenset({Premise.ONE_CLOCK})


@case(
    not_checked=("lost-input", "reprocessed-input"), broken=("may destroy records that brokers had written",)
)
def where_logs_may_be_destroyed_a_run_is_not_valid(h: History) -> None:
    _healed(h)
    h.broken_premises = frozenset({Premise.WHOLE_LOGS})


@case(not_checked=("stalled",))
def a_run_that_does_not_say_when_it_was_healed_is_not_checked(h: History) -> None:
    h.feed(1)
    h.transact(0)
