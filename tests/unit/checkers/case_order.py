"""The order of what a consumer received, of what a producer sent, and of outputs."""

from cases import case

from tests.support.histories import History
from tests.support.stored_tables import RC

# polls: an observer keeps its partitions, so every step of it counts


def _three(h: History) -> None:
    h.feed(3)
    h.transact(0, 1)
    h.transact(2)


@case(poll_skip=1, examples={"poll-skip": {"skipped": 1, "operations": [{"op": 5}], "reader": {"op": 6}}})
def a_visible_record_between_two_polls_was_skipped(h: History) -> None:
    _three(h)
    h.observe("x", 0)
    h.observe("x", 3)


@case()
def a_marker_between_two_polls_was_not(h: History) -> None:
    _three(h)
    for at in (0, 1, 3):
        h.observe("x", at)


@case()
def an_aborted_record_between_two_polls_was_not(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="fail")
    h.transact(1)
    h.observe("x", 0)
    h.observe("x", 4)


@case()
def an_aborted_record_that_was_read_uncommitted_is_no_step(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="fail")
    h.transact(1)
    for at in (0, 2, 4):
        h.observe("x", at, promised="read_uncommitted")


@case(int_poll_skip=1, examples={"int-poll-skip": {"skipped": 1, "operations": None}})
def a_record_skipped_inside_one_poll_is_an_int_poll_skip(h: History) -> None:
    _three(h)
    op = h.op("o", "poll")
    for at in (0, 3):
        h.poll(op, "x", at, h.entries["x"][at]["value"], role="observer")


@case(nonmonotonic_poll=1, examples={"nonmonotonic-poll": {"skipped": None, "operations": [{"op": 6}]}})
def a_reader_that_goes_back_is_nonmonotonic(h: History) -> None:
    _three(h)
    for at in (0, 1, 0):
        h.observe("x", at)


@case(nonmonotonic_poll=1)
def a_record_delivered_twice_is_a_step_back(h: History) -> None:
    _three(h)
    for at in (0, 0):
        h.observe("x", at)


@case(int_nonmonotonic_poll=1)
def a_step_back_inside_one_poll_is_an_int_nonmonotonic_poll(h: History) -> None:
    _three(h)
    op = h.op("o", "poll")
    for at in (0, 1, 0):
        h.poll(op, "x", at, h.entries["x"][at]["value"], role="observer")


@case()
def the_row_order_of_a_poll_does_not_matter(h: History) -> None:
    _three(h)
    op = h.op("o", "poll")
    for at in (0, 1, 3):
        h.poll(op, "x", at, h.entries["x"][at]["value"], role="observer")
    h.rows["polls"].reverse()


@case()
def two_readers_are_not_mixed(h: History) -> None:
    _three(h)
    for journal, at in (("o1", 0), ("o2", 0), ("o2", 1), ("o1", 1), ("o1", 3)):
        h.poll(h.op(journal, "poll"), "x", at, h.entries["x"][at]["value"], role="observer")


def _again(h: History) -> None:
    """w receives input 1 again."""
    h.poll(h.op("w", "poll"), "a", 1, "f:1:0")


@case(nonmonotonic_poll=1)
def an_input_delivered_again_to_a_worker_is_a_step_back(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    _again(h)


@case()
def a_worker_may_poll_an_input_again_after_its_abort(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="fail")
    _again(h)
    h.transact(1, poll=False)


@case()
def a_worker_may_poll_an_input_again_after_its_info(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1, outcome="info", fate="abort")
    _again(h)
    h.transact(1, poll=False)


@case()
def after_a_rebalance_it_may(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.poll(h.op("w", "poll"), "a", 1, "f:1:0")
    h.assign("w", gained=False)
    h.assign("w")
    _again(h)
    h.transact(1, poll=False)


@case()
def the_first_poll_after_a_rebalance_may_hold_records_of_before(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.poll(h.op("w", "poll"), "a", 1, "f:1:0")
    h.assign("w")
    op = h.op("w", "poll")
    for at in (1, 0):
        h.poll(op, "a", at, f"f:{at}:0")
    _again(h)
    h.transact(1, poll=False)


# sends


@case(nonmonotonic_send=1)
def an_acknowledged_send_below_the_one_before_is_nonmonotonic(h: History) -> None:
    _fed_in_reverse(h, "f", "f")


@case()
def two_senders_are_not_mixed(h: History) -> None:
    _fed_in_reverse(h, "f1", "f2")


def _fed_in_reverse(h: History, first: str, second: str) -> None:
    one, two = h.op(first, "send"), h.op(second, "send")
    for op in (two, one):
        h.expect(h.append("a", f"{op.name}:0", digest=7))
    h.send(one, "a", 1)
    h.send(two, "a", 0)
    h.transact(0, 1)


@case(int_nonmonotonic_send=1)
def two_reversed_sends_of_one_operation_are_an_int_nonmonotonic_send(h: History) -> None:
    op = h.op("f", "send")
    for n in (1, 0):
        h.expect(h.append("a", f"{op.name}:{n}", digest=7))
    h.send(op, "a", 1)
    h.send(op, "a", 0)
    h.transact(0, 1)


@case()
def a_send_with_an_unknown_offset_has_no_order(h: History) -> None:
    h.feed(1)
    op = h.op("f", "send", "info")
    h.send(op, "a")
    h.feed(1)
    h.transact(0, 1)


# outputs of one key

ORDERED = {"ordered": True}


def _reversed(h: History, **more: object) -> None:
    """The output of input 1, and the output of input 0 above it."""
    h.feed(2)
    h.transact(1, key="k")
    h.transact(0, worker="v", pid=2, offsets_fate="", **({"key": "k"} | more))  # type: ignore[arg-type]


@case(order_violation=1, options=ORDERED)
def two_outputs_of_one_key_in_reverse_order_violate_it(h: History) -> None:
    _reversed(h)


@case(not_checked=("order-violation",))
def where_no_order_is_promised_it_is_not_checked(h: History) -> None:
    _reversed(h)


@case(options=ORDERED)
def two_outputs_of_two_keys_may_be_reversed(h: History) -> None:
    _reversed(h, key="j")


@case(options=ORDERED)
def an_aborted_output_in_reverse_order_is_none(h: History) -> None:
    _reversed(h, outcome="fail")
    h.transact(0, key="j", worker="v", pid=2, offsets_fate="")


@case(options=ORDERED, order_violation=1)
def an_info_that_was_committed_in_reverse_order_is_one(h: History) -> None:
    _reversed(h, outcome="info", fate="commit")


@case(options=ORDERED, reprocessed_input=1)
def a_repeat_above_a_later_input_is_a_repeat_and_no_more(h: History) -> None:
    h.feed(2)
    h.transact(0, key="k")
    h.transact(1, key="k")
    h.transact(0, key="k", worker="v", pid=2, offsets_fate="")


@case(options=ORDERED, order_violation=1, examples={"order-violation": {"input_before": {"offset": 2}}})
def an_output_above_one_of_a_later_input_violates_the_order(h: History) -> None:
    h.feed(3)
    h.transact(0, key="k")
    h.transact(2, key="k", worker="u", pid=3)
    h.transact(1, key="k", worker="v", pid=2, offsets_fate="")


@case(options={"inputs": "ab"})
def a_partition_without_order_may_reverse_outputs(h: History) -> None:
    _reversed(h)
    h.alter("stages", lambda row: row | {"ordered": row["in_topic"] == "b"})


# two stages that read one topic


def _another_stage(h: History, *, ordered: bool = False) -> None:
    """Stage `t` reads `a`, too."""
    other = {
        "stage": "t",
        "group": "g",
        "in_topic": "a",
        "promised": RC,
        "ordered": ordered,
        "journaled": True,
    }
    h.alter_stages(lambda rows: [*rows, other])
    for at in range(2):
        h.expect(at, stage="t", output_name="t")


def _both_write(h: History) -> None:
    """Each stage makes its output of both inputs, `s` in order of the inputs, and `t` in reverse."""
    h.feed(2)
    h.transact(0, key="k")
    h.transact(1, key="k")
    op = h.op("v")
    for at in (1, 0):
        value = f"{op.name}:{len(op.values)}"
        offset = h.append("x", value, 2, output_name="t", inputs=[("a", at)], digest=7, key="k")
        h.send(op, "x", offset, inputs=[at], output_name="t")
    h.append_marker("x", 2, "commit")


@case(order_violation=1, options=ORDERED)
def another_stage_without_order_does_not_permit_reversed_outputs(h: History) -> None:
    _reversed(h)
    _another_stage(h)
    _write_others(h)


def _write_others(h: History) -> None:
    op = h.op("v")
    for at in (0, 1):
        value = f"{op.name}:{len(op.values)}"
        offset = h.append("x", value, 3, output_name="t", inputs=[("a", at)], digest=7, key="k")
        h.send(op, "x", offset, inputs=[at], output_name="t")
    h.append_marker("x", 3, "commit")


@case(options=ORDERED)
def a_stage_without_order_may_reverse_outputs_beside_one_with_order(h: History) -> None:
    _both_write(h)
    _another_stage(h)


@case(order_violation=1, options=ORDERED)
def of_two_stages_with_order_each_keeps_it(h: History) -> None:
    _both_write(h)
    _another_stage(h, ordered=True)


@case(not_checked=("order-violation of intermediate records",), options=ORDERED)
def beside_a_stage_without_order_it_is_not_known_who_made_the_intermediate_record(h: History) -> None:
    _both_write(h)
    _another_stage(h)
    h.alter_expected(lambda row: row | {"intermediate_topic": "y"} if row["stage"] == "s" else row)


# one key in several partitions


SPREAD = {"ordered": True, "outputs": "xyw", "expects": ""}


def _spread(h: History, letters: str, *, key: str | None = "k", producers: str = "") -> None:
    """Input n leads to an output of one key in the n-th of these partitions of the topic `x`."""
    _one_output_name(h)
    h.feed(len(letters))
    for at, letter in enumerate(letters):
        _expect(h, letter, at)
        h.transact(at, to=letter, key=key, pid=int(producers[at]) if producers else 1)


def _one_output_name(h: History) -> None:
    """Make `y` and `w` partitions of the topic `x`, and give all outputs one name."""
    h.topic_partitions |= {"y": ("x", 1), "w": ("x", 2)}
    for table in ("sends", "records", "expected"):
        h.alter(table, lambda row: row | {"output_name": "out"} if row["output_name"] else row)


def _expect(h: History, output_name: str, offset: int = 0, source: str = "a") -> None:
    """Expect an output in the topic `x` from an input."""
    row = {"stage": "s", "group": "g", "tp": h.tp[source], "offset": offset}
    h.rows["expected"].append(row | {"output_name": output_name, "topic": "x", "digest": 7})


@case(order_violation=1, options=SPREAD, examples={"order-violation": {"key": "k", "partitions": 2}})
def a_key_in_two_partitions_violates_the_order(h: History) -> None:
    _spread(h, "xy")


@case(options=SPREAD, not_checked=("order-violation of outputs without a key",))
def outputs_without_a_key_may_be_in_several_partitions(h: History) -> None:
    _spread(h, "xy", key=None)


@case(options=SPREAD, not_checked=("order-violation of outputs without a key",))
def outputs_with_an_empty_key_may_be_in_several_partitions(h: History) -> None:
    _spread(h, "xy", key="")


@case(options=SPREAD)
def an_aborted_output_in_another_partition_does_not_count(h: History) -> None:
    _spread(h, "x")
    h.transact(0, to="y", key="k", outcome="fail")


@case(options=SPREAD, not_checked=("order-violation where a topic grew",))
def a_key_may_move_once_when_its_topic_grows(h: History) -> None:
    h.growths = {"x": 1}
    _spread(h, "xxyy")


@case(order_violation=1, options=SPREAD)
def a_key_that_moves_to_and_fro_after_its_topic_has_grown_violates_the_order(h: History) -> None:
    h.growths = {"x": 1}
    _spread(h, "xyxyx")


@case(options=SPREAD)
def one_broker_may_learn_late_that_a_topic_has_grown(h: History) -> None:
    h.growths = {"x": 1}
    _spread(h, "xyxy")


@case(options=SPREAD | {"inputs": "ab"})
def outputs_of_inputs_in_two_partitions_may_be_in_two_partitions(h: History) -> None:
    _one_output_name(h)
    for source, letter in (("a", "x"), ("b", "y")):
        h.feed(1, source)
        _expect(h, letter, source=source)
        h.transact(0, to=letter, key="k", source=source)


@case(options=SPREAD)
def another_producer_may_learn_later_that_the_topic_has_grown(h: History) -> None:
    h.growths = {"x": 1}
    _spread(h, "xyx", producers="112")


@case(order_violation=1, options=SPREAD)
def a_key_in_three_partitions_of_a_topic_that_grew_once_violates_the_order(h: History) -> None:
    h.growths = {"x": 1}
    _spread(h, "xyw", producers="123")


@case(options=SPREAD)
def a_key_may_move_twice_when_its_topic_grows_twice(h: History) -> None:
    h.growths = {"x": 2}
    _spread(h, "xyw")


@case(order_violation=1, options=SPREAD)
def the_growth_of_another_topic_explains_nothing(h: History) -> None:
    h.growths = {"a": 1}
    _spread(h, "xy")
