"""Producers that are fenced without a reason."""

from cases import case

from tests.support.histories import WALL_MS, History, Op

SECOND = 1_000_000_000


def _fenced(h: History, **more: object) -> Op:
    """A transaction of w1, which had initialised `id-7`, is fenced. Another worker processes its input."""
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    return h.transact(
        0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True, to="x", **more
    )  # type: ignore[arg-type]


@case(undue_fencing=1)
def fencing_without_another_producer_is_undue(h: History) -> None:
    _fenced(h)
    h.transact(0, worker="v")


@case()
def fencing_of_a_replaced_producer_is_due(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    h.op("w2", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.transact(0, worker="w2")


@case()
def an_unanswered_initialisation_may_have_fenced(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", "info", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.transact(0, worker="v")


@case(undue_fencing=1)
def an_earlier_initialisation_fences_no_later_producer(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7")
    h.op("w3", "init", transactional_id="other")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.transact(0, worker="v")


@case()
def a_failed_initialisation_may_take_effect_later(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", "info", transactional_id="id-7", return_ns=h.tick())
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.transact(0, worker="v")


@case()
def an_own_attempt_without_an_answer_may_have_fenced(h: History) -> None:
    h.feed(1)
    for outcome in ("ok", "info"):
        h.op("w1", "init", outcome, transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.transact(0, worker="v")


@case(contended_id=1)
def fencing_of_a_producer_that_takes_its_id_back_is_due(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2"):
        h.op(worker, "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="v")


@case(undue_fencing=1)
def an_initialisation_after_the_fencing_did_not_fence(h: History) -> None:
    _fenced(h)
    h.op("w2", "init", transactional_id="id-7")
    h.transact(0, worker="w2")


def _timed_out(h: History, start_ms: float, update_ms: float, state: str = "PrepareAbort") -> None:
    h.transact(0, worker="v")

    def bend(row: dict[str, object]) -> dict[str, object]:
        own = row["transactional_id"] == "id-7" and row["state"] == state
        return row | {"start_ms": int(start_ms), "update_ms": int(update_ms)} if own else row

    h.alter("transactions", bend)


@case()
def a_transaction_that_timed_out_is_fenced_duly(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 10_000, WALL_MS)


@case(undue_fencing=1)
def an_abort_before_the_time_out_excuses_nothing(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 9_999, WALL_MS)


@case(undue_fencing=1)
def a_time_out_long_before_excuses_nothing(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 20_000, WALL_MS - 5_000)


@case(undue_fencing=1)
def a_time_out_long_after_excuses_nothing(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS, WALL_MS + 60_000)


@case(undue_fencing=1)
def a_transaction_that_was_only_completed_late_excuses_nothing(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 10_000, WALL_MS, "CompleteAbort")


@case()
def the_last_of_several_time_outs_excuses(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", to="x")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True, to="y")
    h.transact(0, worker="v")
    ends_ms = iter((WALL_MS - 5_000, WALL_MS))

    def bend(row: dict[str, object]) -> dict[str, object]:
        if row["transactional_id"] != "id-7" or row["state"] != "PrepareAbort":
            return row
        end_ms = int(next(ends_ms))
        return row | {"start_ms": end_ms - 10_000, "update_ms": end_ms}

    h.alter("transactions", bend)


@case()
def without_a_wall_clock_any_time_out_excuses(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 20_000, WALL_MS - 5_000)
    h.wall_ms = None


def _fenced_and_followed(h: History, **more: object) -> Op:
    """A transaction of w1 is fenced, and v processes its input."""
    op = h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True, **more)  # type: ignore[arg-type]
    h.transact(0, worker="v")
    return op


@case()
def a_producer_without_an_id_is_not_fenced_for_one(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id=None)
    h.op("w1", "send", "fail", fenced=True)
    h.transact(0, worker="v")


@case()
def without_its_initialisation_a_fencing_is_not_checked(h: History) -> None:
    h.feed(1)
    _fenced_and_followed(h)


@case(undue_fencing=1, contended_id=1)
def an_earlier_owner_does_not_fence_after_the_id_was_taken_back(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2", "w1"):
        h.op(worker, "init", transactional_id="id-7")
    _fenced_and_followed(h)


@case(undue_fencing=1)
def an_initialisation_at_the_time_of_the_answer_did_not_fence(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    op = _fenced_and_followed(h)
    h.op("w2", "init", transactional_id="id-7", call_ns=h.rows["ops"][op.op]["return_ns"])


@case(undue_fencing=1)
def an_attempt_that_begins_in_the_moment_of_the_answer_has_not_fenced(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    op = _fenced_and_followed(h)
    h.op(
        "w2",
        "init",
        "info",
        transactional_id="id-7",
        call_ns=h.rows["ops"][op.op]["return_ns"],
        return_ns=h.tick(),
    )


@case(undue_fencing=1)
def an_earlier_owner_at_the_time_of_the_initialisation_did_not_fence(h: History) -> None:
    h.feed(1)
    before = h.op("w2", "init", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7", call_ns=h.rows["ops"][before.op]["return_ns"])
    _fenced_and_followed(h)


def _timed_out_late(h: History, late_s: float) -> None:
    """Late in the run, w1 is fenced. The abort by time-out came this long after the answer."""
    h.clock += 60 * SECOND
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    op = _fenced_and_followed(h)
    answer_ms = WALL_MS + h.rows["ops"][op.op]["return_ns"] / 1e6

    def bend(row: dict[str, object]) -> dict[str, object]:
        if (row["transactional_id"], row["state"]) != ("id-7", "PrepareAbort"):
            return row
        abort_ms = int(answer_ms + late_s * 1000)
        return row | {"start_ms": abort_ms - 10_000, "update_ms": abort_ms}

    h.alter("transactions", bend)


@case()
def a_transaction_that_timed_out_late_in_the_run_is_fenced_duly(h: History) -> None:
    _timed_out_late(h, 0)


@case()
def a_time_out_within_the_clock_difference_explains_the_fencing(h: History) -> None:
    _timed_out_late(h, 1)


@case(undue_fencing=1)
def a_time_out_further_away_than_the_clocks_may_differ_excuses_nothing(h: History) -> None:
    _timed_out_late(h, 1.1)


@case()
def without_a_return_time_a_producer_may_be_replaced_after_its_call(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="info", fenced=True, fate="abort")
    h.op("w2", "init", transactional_id="id-7")
    h.transact(0, worker="v")


@case(undue_fencing=1)
def without_a_return_time_fencing_without_another_producer_is_undue(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    h.transact(0, worker="w1", transactional_id="id-7", pid=7, outcome="info", fenced=True, fate="abort")
    h.transact(0, worker="v")
