"""Transactional ids that two workers use in turn."""

from cases import case

from tests.support.histories import History


@case(contended_id=1)
def an_id_that_is_taken_back_is_contended(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2", "w1"):
        h.op(worker, "init", transactional_id="i")
    h.transact(0, worker="w1", transactional_id="i")


@case()
def an_id_that_comes_back_with_its_partition_is_not_contended(h: History) -> None:
    h.feed(1)
    h.op("w1", "init", transactional_id="a-0")
    h.assign("w1", gained=False)
    h.op("w2", "init", transactional_id="a-0")
    h.op("w1", "init", transactional_id="a-0")
    h.transact(0, worker="w1", transactional_id="a-0")


@case(contended_id=1)
def a_partition_lost_earlier_or_by_another_explains_no_fencing(h: History) -> None:
    h.feed(1)
    h.assign("w1", gained=False)
    h.op("w1", "init", transactional_id="i")
    h.assign("w2", gained=False)
    h.op("w2", "init", transactional_id="i")
    h.op("w1", "init", transactional_id="i")
    h.transact(0, worker="w1", transactional_id="i")


@case()
def an_id_that_passes_from_one_to_the_next_is_not_contended(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w1", "w2", "w2", "w3"):
        h.op(worker, "init", transactional_id="i")
    h.transact(0, worker="w3", transactional_id="i")


@case()
def two_ids_are_not_contended(h: History) -> None:
    h.feed(1)
    for worker, own in (("w1", "i"), ("w2", "j"), ("w1", "i")):
        h.op(worker, "init", transactional_id=own)
    h.transact(0, worker="w1", transactional_id="i")


@case()
def a_worker_that_had_another_id_does_not_take_this_one_back(h: History) -> None:
    h.feed(1)
    for worker, own in (("w1", "j"), ("w2", "i"), ("w1", "i")):
        h.op(worker, "init", transactional_id=own)
    h.transact(0, worker="w1", transactional_id="i")


@case()
def an_initialisation_without_an_answer_contends_nothing(h: History) -> None:
    h.feed(1)
    for worker, outcome in (("w1", "ok"), ("w2", "info"), ("w1", "ok")):
        h.op(worker, "init", outcome, transactional_id="i")
    h.transact(0, worker="w1", transactional_id="i")


@case()
def producers_without_an_id_contend_for_none(h: History) -> None:
    h.feed(1)
    for worker in ("w1", "w2", "w1"):
        h.op(worker, "init", transactional_id=None)
    h.transact(0, worker="w1")
