"""Observers that stop early, begin late or do not say how far they read."""

from cases import case

from harness.model.promises import SEGMENTS, Promises, ReaderPromise, final_readers
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, RC


def _observed(h: History, *given: int, inputs: int = 5, **end: int) -> None:
    """An observer received these outputs, and says how far it read."""
    h.feed(inputs)
    for at in range(inputs):
        h.transact(at)
    for n in given:
        h.observe("x", 2 * n)  # a marker is between two outputs
    offsets = [2 * n for n in given]
    row = {"first": min(offsets), "next": max(offsets) + 1, "read": len(offsets)} | end
    h.rows["ends"].append(
        {"journal": "o", "isolation": RC, "tp": h.tp["x"], "role": "observer", "sentinel_offset": None} | row
    )


@case()
def an_observer_that_read_from_the_first_record_to_the_last_is_whole(h: History) -> None:
    _observed(h, 0, 1, 2, 3, 4)


@case(broken=("the observer (o) stopped at offset 1 of x/0, whose last visible record is at offset 8",))
def an_observer_that_stopped_early_is_a_gap(h: History) -> None:
    _observed(h, 0)


@case(broken=("the observer (o) began at offset 6 of x/0, whose first visible record is at offset 0",))
def an_observer_that_began_late_is_a_gap(h: History) -> None:
    _observed(h, 3, 4)


@case(broken=("did not come to the end of x/0",), hanging_transaction=1, phantom=1)
def an_observer_need_not_read_beyond_an_open_transaction(h: History) -> None:
    _observed(h, 0, inputs=1)
    h.append("x", None, 9)
    h.log_state(9, "Ongoing", ["y"])
    h.transact(0, worker="v", pid=2, to="", claim=(1, 1))
    h.append("x", None)


def _promised(h: History) -> None:
    h.promises = Promises(
        journaled=("s",),
        witness=SEGMENTS,
        internal_logs=(OFFSETS, TRANSACTIONS),
        replicas=True,
        readers=(*final_readers("axy"), ReaderPromise("o", "observer", RC, ("x", "y"))),
    )


@case(broken=("the observer (o) does not say how far it read x/0, where 2 records are visible",))
def a_promised_observer_without_reads_is_a_gap(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    _promised(h)


@case()
def a_promised_observer_that_read_all_records_is_no_gap(h: History) -> None:
    _observed(h, 0, 1, inputs=2)
    _promised(h)


@case(
    broken=(
        "the final read_committed reader (z) stopped at offset 3 of x/0, whose last visible record is at offset 4",
    ),
)
def a_final_reader_that_met_its_end_too_early_is_a_gap(h: History) -> None:
    h.feed(3)
    for at in range(3):
        h.transact(at)
    x = h.tp["x"]
    early = {"next": 3, "sentinel_offset": 2, "read": 2}
    h.alter(
        "polls", lambda row: None if row["role"] == "final" and row["tp"] == x and row["offset"] > 2 else row
    )
    h.alter("ends", lambda row: row | early if row["tp"] == x and row["isolation"] == RC else row)
