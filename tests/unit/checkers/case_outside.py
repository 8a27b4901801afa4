"""Outputs and offsets that a transaction wrote outside of itself, and groups that commit nothing."""

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
    offset_output_mismatch=1, tells={"offset-output-mismatch": {"records": [{"topic": "x"}], "offsets": []}}
)
def an_output_outside_its_transaction_is_a_mismatch(h: History) -> None:
    plain(h)
    _plain(h, "x")


@case(
    offset_output_mismatch=1, tells={"offset-output-mismatch": {"records": [], "offsets": [{"topic": "a"}]}}
)
def an_offset_outside_its_transaction_is_a_mismatch(h: History) -> None:
    plain(h)
    _plain(h, OFFSETS)
    h.alter("offsets", lambda row: row | {"transactional": False, "producer_id": -1, "epoch": -1})


@case()
def what_a_feeder_writes_is_in_no_transaction_and_right(h: History) -> None:
    h.feed(3)
    h.take(0, 1, 2)


@case(broken=("group g of stage s has committed no offset of a/0, which holds 1 input",))
def a_drained_stage_whose_group_committed_nothing_is_unknown(h: History) -> None:
    plain(h)
    h.drained = True
    h.alter("offsets", lambda row: row | {"group": "other"})


@case()
def a_drained_stage_whose_group_committed_its_inputs_is_known(h: History) -> None:
    plain(h)
    h.drained = True
