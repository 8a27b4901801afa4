"""Records that were read before they committed, or that never committed."""

from cases import case

from harness.model.vocabulary import Premise
from tests.support.histories import WALL_MS, History

# aborted-read and dirty-read


@case(aborted_read=1, dirty_read=1, because={"dirty-read": "aborted-read"})
def a_read_committed_read_of_a_failed_record_is_an_aborted_read(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.observe("x", 0)
    h.transact(0)


@case()
def a_read_uncommitted_read_of_a_failed_record_is_no_finding(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.observe("x", 0, promised="read_uncommitted")
    h.transact(0)


@case(aborted_read=1, dirty_read=1, broken=("the table journals is empty",))
def a_failed_record_that_was_read_is_one_though_no_journal_is_named(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="fail")
    h.observe("x", 0)
    h.transact(0)
    h.alter("journals", lambda _: None)


@case(aborted_read=1)
def a_read_of_a_refused_send_is_an_aborted_read(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op("w", "send", "fail")
    h.append("y", h.send(op, "y"), digest=7)


@case()
def a_read_of_the_acknowledged_send_of_two_is_no_finding(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op("w", "send", "fail")
    h.send(op, "y", h.append("y", f"{op.name}:0", digest=7))
    h.send(op, "y")


@case()
def a_read_of_an_indeterminate_send_is_no_finding(h: History) -> None:
    h.feed(1)
    h.transact(0)
    op = h.op("w", "send", "info")
    h.append("y", h.send(op, "y"), digest=7)


@case(dirty_read=1, because={"dirty-read": None})
def a_read_of_an_aborted_info_record_is_only_a_dirty_read(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.observe("x", 0)
    h.transact(0)


@case()
def a_read_of_a_committed_info_record_is_no_finding(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit")
    h.observe("x", 0)


@case(aborted_read=1, ghost_commit=1, because={"aborted-read": "ghost-commit"})
def a_failed_record_that_was_committed_and_read_comes_of_a_ghost(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail", fate="commit")
    h.transact(1)
    h.observe("x", 0)
    h.alter("polls", lambda row: row | {"promised": "read_uncommitted"} if row["role"] == "final" else row)


@case(dirty_read=1, examples={"dirty-read": {"early_ms": 51.0}})
def a_record_read_long_before_its_marker_is_a_dirty_read(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 51)


@case()
def a_record_read_within_the_margin_before_its_marker_is_none(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 50)


@case()
def without_one_clock_no_read_is_too_early(h: History) -> None:
    h.feed(1)
    op = h.transact(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 9999)
    h.wall_ms = None


def _drifts(h: History, drift_ms: float) -> None:
    h.feed(1)
    op = h.transact(0)
    h.observe("x", 0)
    _marker_at(h, op.values[0], int(WALL_MS + h.clock / 1e6) + 60)
    h.clock_drift_ms = drift_ms


@case(not_checked=("dirty-read by time",))
def where_clocks_need_not_agree_no_read_is_too_early(h: History) -> None:
    _drifts(h, 0.0)
    h.broken_premises = frozenset({Premise.ONE_CLOCK})


@case(dirty_read=1)
def a_read_is_too_early_if_the_clocks_agree(h: History) -> None:
    _drifts(h, 25.0)


@case(not_checked=("dirty-read by time",))
def where_the_wall_clock_stepped_no_read_is_too_early(h: History) -> None:
    _drifts(h, 25.1)


def _marker_at(h: History, _value: str, ms: int) -> None:
    """The marker of x has this time. The final reader, which polls at the same time in this history, came later."""
    h.alter(
        "batches",
        lambda row: row | {"max_timestamp_ms": ms} if row["control"] and row["tp"] == h.tp["x"] else row,
    )
    h.alter(
        "polls", lambda row: row | {"return_ns": row["return_ns"] + 10**12} if row["role"] == "final" else row
    )
