"""Transactions that never end."""

from cases import case, plain, without_sentinels

from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, Row

STUCK = "did not come to the end of x/0", "nothing was committed"

# hanging-transaction


def _left_open(h: History, outcome: str, state: str) -> None:
    """A transaction leaves its output open, and the transaction log says that it is in that state."""
    h.feed(1)
    h.transact(0, outcome=outcome, fate="open", offsets_fate="abort", state=state)


def _aborted(h: History) -> None:
    _left_open(h, "fail", "CompleteAbort")


def _under_way(h: History, for_s: int = 0) -> None:
    _left_open(h, "info", "Ongoing")
    h.clock += for_s * 1_000_000_000


@case(hanging_transaction=1, broken=STUCK)
def a_record_open_after_its_transaction_was_aborted_hangs(h: History) -> None:
    _aborted(h)


@case(
    hanging_transaction=1,
    broken=(
        "reader (z) did not come to the end of",
        "nothing was committed",
        "the final read-uncommitted reader did not receive",
    ),
)
def a_record_hangs_where_no_sentinel_was_written(h: History) -> None:
    _aborted(h)
    without_sentinels(h)


@case(
    hanging_transaction=1,
    broken=(*STUCK, "the run stored the logs of __consumer_offsets, and they are missing"),
)
def a_record_hangs_where_there_is_no_topic_of_offset_commits(h: History) -> None:
    _aborted(h)
    h.without_topic(OFFSETS)


@case(broken=STUCK)
def a_record_open_at_the_high_watermark_does_not_hang(h: History) -> None:
    _aborted(h)
    h.alter("replicas", lambda row: row | {"high_watermark": 0} if row["tp"] == h.tp["x"] else row)


@case(broken=STUCK)
def a_record_of_a_transaction_that_is_under_way_does_not_hang(h: History) -> None:
    _under_way(h)


@case(hanging_transaction=1, broken=STUCK)
def a_transaction_that_is_under_way_for_too_long_hangs(h: History) -> None:
    _under_way(h, 60)


def _began(h: History, before_the_end_s: int) -> None:
    """A transaction with a time-out of 10 s leaves a record open. It began this long before the end of the run."""
    _under_way(h, 60)
    end_ms = h.clock // 1_000_000 + 1_000_000 + 2  # the final reads take that long

    def began(row: Row) -> Row:
        return row | {"start_ms": end_ms - 1_000 * before_the_end_s}

    h.alter("transactions", began)


@case(broken=STUCK)
def a_transaction_that_may_be_ended_in_this_moment_does_not_hang(h: History) -> None:
    _began(h, 40)


@case(broken=STUCK)
def a_transaction_has_its_own_time_out_and_that_of_the_clean_up(h: History) -> None:
    _began(h, 35)


@case(hanging_transaction=1, broken=STUCK)
def a_transaction_that_is_under_way_elsewhere_is_not_under_way_here(h: History) -> None:
    _under_way(h)
    h.alter(
        "transactions",
        lambda row: (
            row | {"tps": [h.tp["y"]]} if row["state"] == "Ongoing" and h.tp["x"] in row["tps"] else row
        ),
    )


@case(
    broken=(*STUCK, "the leader's log of __transaction_state/1 is missing"),
    not_checked=("hanging-transaction",),
    options={"outputs": "xyz"},
)
def without_a_part_of_the_transaction_log_no_transaction_hangs(h: History) -> None:
    h.topic_partitions["z"] = TRANSACTIONS, 1
    _aborted(h)
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["z"] else row)


@case(
    broken=("did not come to the end of y/0", "the leader's log of __transaction_state/1 is missing"),
    not_checked=("hanging-transaction",),
    options={"outputs": "xyz"},
)
def without_a_part_of_the_transaction_log_open_records_are_not_torn(h: History) -> None:
    h.topic_partitions["z"] = TRANSACTIONS, 1
    h.feed(1)
    h.transact(0, to="xy", fates={"y": "open"}, state="CompleteCommit")
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["z"] else row)


@case(hanging_transaction=1, broken=STUCK)
def a_run_has_ended_when_its_last_sentinel_was_written(h: History) -> None:
    _under_way(h, 60)

    def earlier(row: Row) -> Row:
        return row | {"timestamp_ms": row["timestamp_ms"] - 60_000 * (row["tp"] == h.tp["y"])}

    h.alter("records", earlier)


@case(broken=STUCK)
def a_record_with_a_time_to_come_ends_no_run(h: History) -> None:
    _under_way(h)
    h.alter("records", lambda row: row if row["sentinel"] else row | {"timestamp_ms": 10**12})


@case(
    hanging_transaction=1,
    broken=(
        *STUCK,
        "the leader's log of y/0 is missing or damaged",
    ),
)
def a_log_that_is_damaged_elsewhere_hides_no_transaction_that_hangs(h: History) -> None:
    _aborted(h)
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["y"] else row)


@case(broken=("killed", *STUCK))
def a_run_that_was_cut_short_has_no_hanging_transaction(h: History) -> None:
    _aborted(h)
    h.incomplete = ("the run was killed",)


# stuck-completion


def _prepared(h: History, state: str, for_ns: int) -> None:
    """A transaction that was prepared this long before the end of the run."""
    plain(h)
    h.log_state(7, "Ongoing")
    h.log_state(7, state)
    h.clock += for_ns


@case(stuck_completion=1)
def a_transaction_that_stays_prepared_is_stuck(h: History) -> None:
    _prepared(h, "PrepareCommit", 30_001_000_000)


@case()
def a_transaction_that_was_prepared_just_now_is_not_stuck(h: History) -> None:
    _prepared(h, "PrepareAbort", 29_000_000_000)


@case(stuck_completion=1)
def a_state_that_is_written_again_holds_since_it_was_first_written(h: History) -> None:
    _prepared(h, "PrepareCommit", 30_001_000_000)
    h.log_state(7, "PrepareCommit")


@case()
def a_transaction_that_was_prepared_just_at_the_bound_is_not_stuck(h: History) -> None:
    _prepared(h, "PrepareAbort", 30_000_000_000)
    h.alter("transactions", lambda row: row | {"update_ms": row["update_ms"] + 2})


@case()
def a_transaction_that_was_completed_is_not_stuck(h: History) -> None:
    plain(h)
    h.log_transaction(7, ())
    h.log_state(8, "Ongoing")
    h.clock += 60_000_000_000


@case(broken=("killed",))
def a_run_that_was_cut_short_has_no_stuck_completion(h: History) -> None:
    _prepared(h, "PrepareAbort", 60_000_000_000)
    h.incomplete = ("the run was killed",)
