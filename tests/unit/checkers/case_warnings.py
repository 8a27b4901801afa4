"""Warnings: ids that are contended, producers that are fenced for nothing, groups that stand still."""

from cases import case
from histories import WALL_MS, History, Op

SECOND = 1_000_000_000


# contended-id


@case(contended_id=1)
def an_id_that_is_taken_back_is_contended(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2", "w1"):
        h.op(worker, "init", transactional_id="i")
    h.take(0, worker="w1", transactional_id="i")


@case()
def an_id_that_passes_from_one_to_the_next_is_not_contended(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w1", "w2", "w2", "w3"):
        h.op(worker, "init", transactional_id="i")
    h.take(0, worker="w3", transactional_id="i")


@case()
def two_ids_are_not_contended(h: History) -> None:
    h.feed(1)
    for worker, own in (("w1", "i"), ("w2", "j"), ("w1", "i")):
        h.op(worker, "init", transactional_id=own)
    h.take(0, worker="w1", transactional_id="i")


@case()
def one_who_had_another_id_before_does_not_take_this_one_back(h: History) -> None:
    h.feed(1)
    for worker, own in (("w1", "j"), ("w2", "i"), ("w1", "i")):
        h.op(worker, "init", transactional_id=own)
    h.take(0, worker="w1", transactional_id="i")


@case()
def an_initialisation_without_an_answer_contends_nothing(h: History) -> None:
    h.feed(1)
    for worker, outcome in (("w1", "ok"), ("w2", "info"), ("w1", "ok")):
        h.op(worker, "init", outcome, transactional_id="i")
    h.take(0, worker="w1", transactional_id="i")


# undue-fencing


def _fenced(h: History, **more: object) -> Op:
    """A transaction of w1, that had initialised `id-7`, is fenced; another one takes its input."""
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    return h.take(
        0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True, gives="x", **more
    )  # type: ignore[arg-type]


@case(undue_fencing=1)
def a_producer_that_was_fenced_by_nobody_is_told(h: History) -> None:
    _fenced(h)
    h.take(0, worker="v")


@case()
def a_producer_that_was_replaced_is_fenced_duly(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="id-7")
    h.op("w2", "init", transactional_id="id-7")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.take(0, worker="w2")


@case()
def one_who_began_to_take_the_id_and_was_not_answered_may_have_fenced(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", "info", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.take(0, worker="v")


@case(undue_fencing=1)
def one_who_had_the_id_before_fences_nobody(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", transactional_id="id-7")
    h.op("w1", "init", transactional_id="id-7")
    h.op("w3", "init", transactional_id="other")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.take(0, worker="v")


@case()
def one_whose_attempt_to_take_the_id_ended_in_an_error_may_come_later(h: History) -> None:
    h.feed(1)
    h.op("w2", "init", "info", transactional_id="id-7", return_ns=h.tick())
    h.op("w1", "init", transactional_id="id-7")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.take(0, worker="v")


@case()
def an_own_attempt_without_an_answer_may_have_fenced(h: History) -> None:
    h.feed(1)
    for outcome in ("ok", "info"):
        h.op("w1", "init", outcome, transactional_id="id-7")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.take(0, worker="v")


@case(contended_id=1)
def one_who_takes_the_id_back_was_fenced_duly(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2"):
        h.op(worker, "init", transactional_id="id-7")
    h.take(0, worker="w1", transactional_id="id-7", pid=7, outcome="fail", fenced=True)
    h.op("w1", "init", transactional_id="id-7")
    h.take(0, worker="v")


@case(undue_fencing=1)
def one_who_takes_the_id_afterwards_has_not_fenced(h: History) -> None:
    _fenced(h)
    h.op("w2", "init", transactional_id="id-7")
    h.take(0, worker="w2")


def _timed_out(h: History, start_ms: float, update_ms: float, state: str = "PrepareAbort") -> None:
    h.take(0, worker="v")

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
def without_a_wall_clock_any_time_out_excuses(h: History) -> None:
    _fenced(h)
    _timed_out(h, WALL_MS - 20_000, WALL_MS - 5_000)
    h.wall_ms = None


# stalled: time-outs of 10 s in the transaction log and 2 s of the session, so the bound is 27 s


def _healed(h: History, at_s: float = 0.0) -> None:
    h.healed_ns, h.session_ms = int(at_s * SECOND), 2_000


@case(stalled=1)
def a_group_that_commits_nothing_for_longer_than_the_bound_is_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 27 * SECOND
    h.take(1)


@case()
def a_group_that_commits_within_the_bound_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 26 * SECOND
    h.take(1)


@case()
def the_longest_time_out_counts(h: History) -> None:
    _healed(h)
    h.state(7, "Empty")
    h.rows["transactions"][-1]["timeout_ms"] = 30_000
    h.feed(2)
    h.take(0)
    h.clock += 40 * SECOND
    h.take(1)


@case()
def a_group_without_anything_to_do_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.take(0)
    h.clock += 60 * SECOND
    h.feed(1)
    h.take(1)


@case()
def a_group_that_stood_still_before_the_heal_is_not_stalled(h: History) -> None:
    _healed(h, 40)
    h.feed(2)
    h.take(0)
    h.clock += 60 * SECOND
    h.take(1)


@case()
def a_worker_that_began_late_was_not_there_to_work(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 60 * SECOND
    h.take(1, worker="w2", pid=2)


@case()
def an_input_whose_writer_was_not_answered_lies_before_nobody(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 60 * SECOND
    h.take(1)
    h.alter("ops", lambda row: row | {"outcome": "info"} if row["name"] == "f:1" else row)


@case(stalled=1)
def a_group_that_never_commits_again_is_stalled(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 20 * SECOND
    h.op("w", "init", "ok")
    for seconds in (8, 12):
        h.clock += seconds * SECOND
        h.op("w", "init", "info")


@case(stalled=1)
def what_was_aborted_below_the_inputs_that_wait_is_passed_over(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.take(0)
    h.put("a", None, 9)
    h.mark("a", 9, "abort")
    h.feed(1)
    h.clock += 40 * SECOND
    h.op("w", "init", "info")


@case(stalled=1)
def what_a_worker_tried_in_vain_is_no_commit(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 20 * SECOND
    h.take(1, outcome="fail")
    h.clock += 20 * SECOND
    h.take(1)


@case(stalled=1)
def the_commits_of_another_stage_are_no_commits_of_this_one(h: History) -> None:
    _healed(h)
    h.feed(2)
    h.take(0)
    h.clock += 20 * SECOND
    other = h.op("u", "txn", stage="t", group="k")
    h.rows["claims"].append({"op": other.op, "group": "k", "tp": h.tp["a"], "first": 1, "next": 1})
    h.clock += 20 * SECOND
    h.take(1)


@case()
def a_worker_that_goes_on_with_nothing_left_is_not_stalled(h: History) -> None:
    _healed(h)
    h.feed(1)
    h.take(0)
    h.clock += 60 * SECOND
    h.op("w", "init", "info")


@case(stalled=1)
def without_a_session_time_out_that_of_kafka_counts(h: History) -> None:
    h.healed_ns = 0
    h.feed(3)
    h.take(0)
    h.clock += 69 * SECOND
    h.take(1)
    h.clock += 70 * SECOND
    h.take(2)


@case(not_checked=("stalled",))
def a_run_that_does_not_say_when_it_was_healed_is_not_checked(h: History) -> None:
    h.feed(2)
    h.take(0)
    h.clock += 100 * SECOND
    h.take(1)
