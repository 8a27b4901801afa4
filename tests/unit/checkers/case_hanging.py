"""Transactions that never end."""

from cases import case, plain
from histories import History

# hanging-transaction


@case(hanging_transaction=1, broken=("did not come to the end of x/0", "nothing was committed"))
def a_record_open_after_its_transaction_was_aborted_hangs(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")


@case(broken=("did not come to the end of x/0", "nothing was committed"))
def a_record_open_at_the_high_watermark_does_not_hang(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.alter("replicas", lambda row: row | {"high_watermark": 0} if row["tp"] == h.tp["x"] else row)


@case(broken=("did not come to the end of x/0", "nothing was committed"))
def a_record_of_a_transaction_that_is_under_way_does_not_hang(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="open", offsets_fate="abort", state="Ongoing")


@case(hanging_transaction=1, broken=("did not come to the end of x/0", "nothing was committed"))
def a_transaction_that_is_under_way_for_too_long_hangs(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="info", fate="open", offsets_fate="abort", state="Ongoing")
    h.clock += 60_000_000_000


@case(broken=("killed", "did not come to the end of x/0", "nothing was committed"))
def a_run_that_was_cut_short_has_no_hanging_transaction(h: History) -> None:
    h.feed(1)
    h.take(0, outcome="fail", fate="open", offsets_fate="abort", state="CompleteAbort")
    h.incomplete = ("the run was killed",)


# stuck-completion


@case(stuck_completion=1)
def a_transaction_that_stays_prepared_is_stuck(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareCommit")
    h.clock += 30_001_000_000


@case()
def a_transaction_that_was_prepared_just_now_is_not_stuck(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareAbort")
    h.clock += 29_000_000_000


@case()
def a_transaction_that_was_completed_is_not_stuck(h: History) -> None:
    plain(h)
    h.complete(7, ())
    h.state(8, "Ongoing")
    h.clock += 60_000_000_000


@case(broken=("killed",))
def a_run_that_was_cut_short_has_no_stuck_completion(h: History) -> None:
    plain(h)
    h.state(7, "Ongoing")
    h.state(7, "PrepareAbort")
    h.clock += 60_000_000_000
    h.incomplete = ("the run was killed",)
