"""Inputs that were processed twice, or never."""

from cases import case

from tests.support.histories import History
from tests.support.stored_tables import RC, RU, Row


@case(reprocessed_input=1, overlapping_commit=1)
def two_visible_outputs_of_one_input_and_output_name_are_a_reprocessed_input(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(0, worker="v", pid=2)


@case()
def a_second_output_that_was_aborted_is_none(h: History) -> None:
    h.feed(1)
    h.transact(0)
    h.transact(0, worker="v", pid=2, outcome="fail")


@case()
def the_output_of_an_info_without_effect_is_no_second_output(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort")
    h.transact(0, worker="v", pid=2)


@case(reprocessed_input=1, overlapping_commit=1)
def a_second_output_of_an_info_that_was_committed_is_one(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="commit")
    h.transact(0, worker="v", pid=2)


@case()
def two_outputs_in_two_output_names_are_none(h: History) -> None:
    h.expects = "xy"
    h.feed(1)
    h.transact(0, to="xy")


@case(reprocessed_input=1, overlapping_commit=1)
def an_input_of_a_filter_in_two_committed_ranges_is_reprocessed(h: History) -> None:
    h.feed(2)
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)
    h.transact(0)
    h.transact(1, to="")
    h.transact(1, to="", poll=False)


@case()
def an_input_of_a_filter_in_an_aborted_range_and_a_committed_one_is_none(h: History) -> None:
    h.feed(2)
    h.alter_expected(lambda row: None if row["offset"] == 1 else row)
    h.transact(0)
    h.transact(1, to="", outcome="fail")
    h.transact(1, to="")


@case(lost_input=1)
def an_input_that_the_group_went_past_without_output_is_lost(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail")
    h.transact(1)


@case()
def an_input_that_the_group_has_not_reached_is_not_lost(h: History) -> None:
    h.feed(2)
    h.transact(0)


@case()
def an_aborted_input_is_not_lost(h: History) -> None:
    h.feed(1)
    h.append("a", None, 9)
    h.append_marker("a", 9, "abort")
    h.expect(1)
    h.feed(1)
    h.transact(0)
    h.transact(3)


@case(overlapping_commit=1)
def a_sentinel_is_no_input(h: History) -> None:
    h.feed(1)
    h.transact(0, claim=(0, 2))
    h.transact(to="", claim=(1, 2))


@case()
def an_input_before_the_first_position_of_the_group_is_not_lost(h: History) -> None:
    h.feed(2)
    h.transact(1)
    h.alter("assignments", lambda row: row | {"offset": 1})


NOT_PAST, NO_COMMIT = "had not committed past them", "no committed offset of the stage is known"
NO_START, NOT_READ = "from which offset the group", "was not read from its start to its end"


@case(undecided={"lost-input": {NOT_PAST: 2}})
def inputs_above_the_committed_offset_are_not_decided(h: History) -> None:
    h.feed(3)
    h.transact(0)


@case(undecided={})
def an_input_before_the_start_of_its_group_is_no_question(h: History) -> None:
    h.feed(3)
    h.transact(1)
    h.transact(2)
    h.alter("assignments", lambda row: row | {"offset": 1})


@case(options={"inputs": "ab"}, undecided={"lost-input": {NO_COMMIT: 1}})
def an_input_of_a_partition_without_a_commit_is_not_decided(h: History) -> None:
    h.feed(1, "a")
    h.feed(1, "b")
    h.transact(0, source="a")


@case()
def a_beginning_at_no_known_position_is_none(h: History) -> None:
    h.feed(2)
    h.transact(1)
    h.alter("assignments", lambda row: row | {"offset": None})


@case(
    options={"inputs": "ab"},
    broken=("it is not known from which offset group g read a/0, which it has committed up to offset 2",),
    undecided={"lost-input": {NO_START: 1}},
)
def a_group_that_began_at_an_unknown_offset_may_skip_inputs(h: History) -> None:
    h.feed(2, "a")
    h.feed(1, "b")
    h.transact(1)
    h.transact(0, source="b")
    h.alter("assignments", lambda row: row | {"offset": None})
    h.alter("claims", lambda row: None if row["tp"] == h.tp["a"] else row)


@case(
    not_checked=("lost-input", "aggregate-mismatch"),
    broken=("a stage keeps its offsets outside Kafka",),
)
def a_stage_with_its_own_offsets_is_not_compared_with_a_group(h: History) -> None:
    h.feed(2)
    h.transact(0, offsets_fate="")
    for table in ("stages", "claims", "assignments", "expected", "ops"):
        h.alter(table, lambda row: row | {"group": None})


@case()
def where_a_member_lost_a_partition_its_group_did_not_begin(h: History) -> None:
    h.feed(2)
    h.transact(1)
    h.alter("assignments", lambda row: row | {"gained": False})


@case(broken=("did not come to the end of x/0",), undecided={"lost-input": {NOT_READ: 1}})
def a_partly_read_output_topic_proves_no_lost_input(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail")
    h.transact(1)
    h.alter("ends", lambda row: row | {"sentinel_offset": None} if row["tp"] == h.tp["x"] else row)


@case(
    lost_input=1,
    hanging_transaction=1,
    because={"lost-input": "hanging-transaction"},
    broken=("did not come to the end of x/0",),
)
def an_input_whose_output_hangs_is_lost(h: History) -> None:
    h.feed(1)
    h.transact(0, fates={"x": "open"}, state="CompleteCommit")


def _elsewhere_not_to_the_end(h: History, isolation: str) -> None:
    """A group goes past an input without an output. A final reader does not reach the end of another partition of x."""
    h.topic_partitions["z"] = "x", 1
    h.feed(2)
    h.transact(0, outcome="fail")
    h.transact(1)

    def cut(row: Row) -> Row:
        here = row["tp"] == h.tp["z"] and row["isolation"] == isolation
        return row | {"sentinel_offset": None} if here else row

    h.alter("ends", cut)


@case(broken=("read_uncommitted reader (z) did not come to the end of x/1",), options={"outputs": "xyz"})
def an_input_whose_output_may_be_in_another_partition_is_not_lost(h: History) -> None:
    _elsewhere_not_to_the_end(h, RU)


@case(
    lost_input=1,
    broken=("read_committed reader (z) did not come to the end of x/1",),
    options={"outputs": "xyz"},
)
def an_input_without_an_output_in_any_log_of_the_topic_is_lost(h: History) -> None:
    _elsewhere_not_to_the_end(h, RC)


@case(
    broken=("did not come to the end of x/1", "the leader's log of x/1 is missing"),
    options={"outputs": "xyz"},
)
def an_input_whose_output_may_be_in_a_missing_log_is_not_lost(h: History) -> None:
    _elsewhere_not_to_the_end(h, RC)
    h.alter("replicas", lambda row: row | {"damaged": "a torn tail"} if row["tp"] == h.tp["z"] else row)


@case(
    lost_input=1,
    examples={"lost-input": {"passed_by": {"op": 6, "committed": 3, "offset": 5, "fate": "commit"}}},
)
def the_first_commit_that_took_effect_beyond_it_went_past_an_input(h: History) -> None:
    h.feed(4)
    h.commit_offset(3)  # at 0
    h.rows["offsets"][-1]["group"] = "another"
    h.transact(0)  # at 1, and its marker at 2
    h.transact(1, outcome="fail")
    h.transact(2)
    h.transact(3)


@case(options={"log": False}, lost_input=1, examples={"lost-input": {"passed_by": None}})
def without_logs_the_claims_of_committed_transactions_count(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="fail")
    h.transact(1)


@case(options={"log": False}, lost_input=1)
def without_logs_the_furthest_claim_counts(h: History) -> None:
    h.feed(3)
    h.transact(0)
    h.transact(1, outcome="fail")
    h.transact(2)


@case(unsettled=1, options={"log": False})
def without_logs_the_claims_of_an_info_count_for_nothing(h: History) -> None:
    h.feed(2)
    h.transact(0)
    op = h.transact(1, outcome="info", fate="abort")
    assert op.values
