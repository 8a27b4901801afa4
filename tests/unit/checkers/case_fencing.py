"""Fencing: who may have taken an id, and when; and producers that have none."""

from cases import case
from histories import WALL_MS, History, Op

SECOND = 1_000_000_000


def _fenced(h: History, **more: object) -> Op:
    """A transaction of w1 is fenced; v takes its input."""
    op = h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True, **more)  # type: ignore[arg-type]
    h.take(0, worker="v")
    return op


# contended-id


@case()
def producers_without_an_id_contend_for_none(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2", "w1"):
        h.op(worker, "init", transactional_id=None)
    h.take(0, worker="w1")


# undue-fencing


@case()
def a_producer_without_an_id_is_not_fenced_for_one(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id=None)
    h.op("w1", "send", "fail", fenced=True)
    h.take(0, worker="v")


@case()
def of_one_whose_initialisation_nobody_recorded_nothing_is_known(h: History) -> None:
    h.feed(1)
    _fenced(h)


@case(undue_fencing=1)
def one_who_begins_to_take_the_id_in_the_moment_of_the_answer_has_not_fenced(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    op = _fenced(h)
    h.op("w2", "init", transactional_id="id-7", call_ns=h.rows["ops"][op.op]["return_ns"])


@case(undue_fencing=1)
def one_who_had_the_id_until_the_moment_of_the_own_initialisation_has_not_fenced(h: History) -> None:
    h.feed(1)
    before = h.op("w2", "init", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7", call_ns=h.rows["ops"][before.op]["return_ns"])
    _fenced(h)


def _timed_out(h: History, late_s: float) -> None:
    """Late in the run w1 is fenced; its transaction had timed out, so long after the answer."""
    h.clock += 60 * SECOND
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    op = _fenced(h)
    answer_ms = WALL_MS + h.rows["ops"][op.op]["return_ns"] / 1e6

    def bend(row: dict[str, object]) -> dict[str, object]:
        if (row["transactional_id"], row["state"]) != ("id-7", "PrepareAbort"):
            return row
        abort_ms = int(answer_ms + late_s * 1000)
        return row | {"start_ms": abort_ms - 10_000, "update_ms": abort_ms}

    h.alter("transactions", bend)


@case()
def a_transaction_that_timed_out_late_in_the_run_is_fenced_duly(h: History) -> None:
    _timed_out(h, 0)


@case()
def a_time_out_within_what_the_clocks_may_differ_excuses(h: History) -> None:
    _timed_out(h, 1)


@case(undue_fencing=1)
def a_time_out_further_away_than_the_clocks_may_differ_excuses_nothing(h: History) -> None:
    _timed_out(h, 1.1)
