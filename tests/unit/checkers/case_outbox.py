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
def what_a_relay_repeats_is_permitted_by_its_own_guarantee(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1)
    outbox(h)
    h.permitted = frozenset({"reprocessed-input"})


@case(options=OPTIONS, reprocessed_input=1)
def what_the_consumer_repeats_is_not(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    publish(h, 1)
    apply(h, [0, 1, 3], 0, 1, 1)
    outbox(h)


@case(options=OPTIONS, reprocessed_input=1)
def what_is_repeated_where_no_stage_promises_less_is_not(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    publish(h, 0)
    apply(h, [0, 2], 0)
    outbox(h, relay_may_repeat=False)


@case(options=OPTIONS, lost_input=1, tells={"lost-input": {"slot": "x"}})
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


@case(options=OPTIONS, lost_input=1, tells={"lost-input": {"slot": "y"}})
def an_event_that_the_group_went_past_and_that_was_not_applied_is_lost(h: History) -> None:
    h.feed(2)
    publish(h, 0, 1)
    apply(h, [0, 1], 0)
    outbox(h)


@case(options=OPTIONS)
def an_event_that_was_aborted_is_not_the_one_that_the_group_had_to_take(h: History) -> None:
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
def a_row_that_was_told_to_be_committed_and_is_gone_is_lost(h: History) -> None:
    h.feed(3)
    publish(h, 0, 2)
    apply(h, [0, 1], 0, 2)
    outbox(h, pending=[1])
    for table in ("records", "polls"):
        h.alter(table, lambda row: None if row["tp"] == h.tp["a"] and row["offset"] == 1 else row)


@case(options=OPTIONS, not_checked=("lost-input",), broken=("a stage keeps its offsets outside Kafka",))
def a_stage_that_marks_nothing_and_has_no_group_cannot_be_judged(h: History) -> None:
    h.feed(1)
    publish(h, 0)
    apply(h, [0], 0)
    outbox(h)
    h.alter("stages", lambda row: row | {"positions": None})
