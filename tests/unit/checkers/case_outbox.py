"""An outbox: rows that are marked as done one by one, a relay that may repeat, and a consumer that may not.

`a` is the table of inputs, `x` the topic of events, `y` the consumer's table: the relay `s` makes of each row of `a` a
record of `x`, and the consumer `c` of that record a row of `y`, which names the row of `a`.
"""

from cases import case

from tests.support.histories import History
from tests.support.outbox import OPTIONS, apply, outbox, publish


@case(options=OPTIONS)
def rows_that_are_published_and_applied_once_are_right_in_any_order(h: History) -> None:
    h.feed(3)
    publish(h, 0, 2)
    publish(h, 1)
    apply(h, [0, 1], 0, 2)
    apply(h, [3], 1)
    outbox(h)


@case(options=OPTIONS, reprocessed_input=1)
def a_relays_guarantee_permits_it_to_repeat(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1)
    outbox(h)
    h.permitted = frozenset({"reprocessed-input"})


@case(options=OPTIONS, reprocessed_input=1)
def a_relays_guarantee_does_not_permit_the_consumer_to_repeat(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1, 1)
    outbox(h)


@case(options=OPTIONS, reprocessed_input=1)
def a_repeat_without_a_weaker_guarantee_is_not_permitted(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    publish(h, 0)
    apply(h, [0, 2], 0)
    outbox(h, relay_may_repeat=False)


@case(options=OPTIONS, lost_input=1, examples={"lost-input": {"slot": "x"}})
def a_row_that_is_done_and_was_never_published_is_lost_once(h: History) -> None:
    h.feed(2)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h)


@case(options=OPTIONS)
def a_row_that_is_not_done_yet_is_not_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h, pending=[1])


@case(options=OPTIONS, lost_input=1, examples={"lost-input": {"slot": "y"}})
def an_event_that_the_group_went_past_and_that_was_not_applied_is_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    apply(h, [0, 1], 0)
    outbox(h)


@case(options=OPTIONS)
def an_aborted_event_is_not_one_that_the_group_must_process(h: History) -> None:
    h.feed(3)
    publish(h, 0)
    publish(h, 1, committed=False)
    publish(h, 2)
    publish(h, 1)
    apply(h, [0, 4], 0, 2)
    outbox(h)


@case(options=OPTIONS)
def an_event_that_the_group_did_not_come_to_is_not_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    apply(h, [0], 0)
    outbox(h)


@case(options=OPTIONS, lost_write=1, unseen=1)
def a_missing_row_of_an_ok_send_is_lost(h: History) -> None:
    h.feed(3)
    publish(h, 0, 2)
    apply(h, [0, 1], 0, 2)
    outbox(h, pending=[1])
    for table in ("records", "polls"):
        h.alter(table, lambda row: None if row["tp"] == h.tp["a"] and row["offset"] == 1 else row)


@case(options=OPTIONS, not_checked=("lost-input",), broken=("a stage keeps its offsets outside Kafka",))
def a_stage_without_marks_and_group_is_not_checked(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h)
    h.alter("stages", lambda row: row | {"positions": None})
