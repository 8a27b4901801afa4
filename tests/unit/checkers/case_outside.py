"""Outputs and offsets that an operation wrote outside its transaction, and groups that commit nothing."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS, Row

PLAIN = {"transactional": False, "producer_id": -1, "epoch": -1, "base_sequence": -1}


def _plain(h: History, topic: str) -> None:
    """The first batch of a topic is in no transaction."""
    first = h.tp[topic], 0

    def bend(row: Row) -> Row:
        return row | PLAIN if (row["tp"], row["base_offset"]) == first else row

    h.alter("batches", bend)


@case(
    offset_output_mismatch=1,
    examples={"offset-output-mismatch": {"records": [{"topic": "x"}], "offsets": []}},
)
def an_output_outside_its_transaction_is_a_mismatch(h: History) -> None:
    plain(h)
    _plain(h, "x")


@case(
    offset_output_mismatch=1,
    broken=("1 transaction claimed inputs for a group that committed no offset within a transaction",),
    examples={"offset-output-mismatch": {"records": [], "offsets": [{"topic": "a"}]}},
)
def an_offset_outside_its_transaction_is_a_mismatch(h: History) -> None:
    plain(h)
    _plain(h, OFFSETS)
    h.alter("offsets", lambda row: row | {"transactional": False, "producer_id": -1, "epoch": -1})


@case()
def a_feeder_may_write_outside_transactions(h: History) -> None:
    h.feed(3)
    h.transact(0, 1, 2)


@case(broken=("group g of stage s has committed no offset of a/0, which holds 1 input",))
def a_drained_stage_whose_group_committed_nothing_is_unknown(h: History) -> None:
    plain(h)
    h.drained = True
    h.alter("offsets", lambda row: row | {"group": "other"})


@case()
def a_drained_stage_whose_group_committed_its_inputs_is_known(h: History) -> None:
    plain(h)
    h.drained = True


@case(
    broken=("group g of stage s has committed a/0 up to offset 1, and the last input there is at offset 2",)
)
def a_drained_stage_that_left_inputs_is_unknown(h: History) -> None:
    h.feed(3)
    h.transact(0)
    h.drained = True


@case(broken=("group g of stage s has committed offset 100 of a/0, whose log ends at 3",))
def an_offset_beyond_the_end_of_its_partition_is_unknown(h: History) -> None:
    h.feed(2)
    h.transact(0)
    h.transact(1)
    h.commit_offset(100)


def _uncompacted(h: History) -> None:
    h.alter("partitions", lambda row: row | {"compacted": False})


@case(broken=("1 transaction claimed inputs for a group that committed no offset within a transaction",))
def where_all_offsets_were_committed_outside_a_run_is_unknown(h: History) -> None:
    h.feed(1)
    h.transact(0, offsets_fate="")
    h.commit_offset(1)
    _uncompacted(h)


@case(offset_output_mismatch=1)
def an_info_with_outputs_and_without_offsets_is_a_mismatch(h: History) -> None:
    h.feed(2)
    h.transact(0, outcome="info", offsets_fate="")
    h.transact(1)
    _uncompacted(h)


@case()
def an_info_that_was_aborted_needs_no_offsets(h: History) -> None:
    h.feed(1)
    h.transact(0, outcome="info", fate="abort", offsets_fate="")
    h.transact(0)
    _uncompacted(h)


@case(
    options={"inputs": "ab"},
    broken=("1 transaction claimed inputs for a group that committed no offset within a transaction",),
)
def a_transactional_group_does_not_hide_a_plain_commit_of_another(h: History) -> None:
    h.feed(1)
    h.feed(1, "b")
    h.transact(0)
    op = h.transact(0, source="b", offsets_fate="", worker="v", stage="t", group="h").op
    h.alter("claims", lambda row: row | {"group": "h"} if row["op"] == op else row)
    h.commit_offset(1, source="b")
    h.rows["offsets"][-1]["group"] = "h"
    other = {"stage": "t", "group": "h"}
    h.alter("stages", lambda row: row | other if row["in_topic"] == "b" else row)
    h.alter("expected", lambda row: row | other if row["tp"] == h.tp["b"] else row)
    h.alter("assignments", lambda row: None if row["tp"] == h.tp["b"] else row)
    _uncompacted(h)
