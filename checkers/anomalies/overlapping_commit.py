"""Overlapping commit: two transactions committed offsets over the same inputs.

The input ranges of two operations of one group intersect. The range of an operation goes from the first input that it
took to the offset that it committed. The log has both offset commits as part of a committed transaction.

Illegal because the committed offset of a group divides its inputs: each input belongs to the one transaction that
moved the offset past it.
Evidence: the claims in the journal, and the fates of the offset commits in the leader's log of `__consumer_offsets`.

    T1  poll a@4 to a@6, send_offsets a->7, commit     ok
    T2  poll a@6 to a@8, send_offsets a->9, commit     ok      <- overlapping-commit

Blind spot: offset commits that are gone because their topic is compacted, that do not name an operation, or that are
outside any transaction.
Reference: KIP-447, "zombie fencing by generation"; Wang et al. 2021, "Consistency and Completeness" (SIGMOD).
"""

from checkers.findings import AnomalyWording, Rule, operation, record_position
from harness.common.wording import join_words, printable
from harness.results.example import Example

RULES = (
    Rule(
        "overlapping-commit",
        "claimed_ranges",
        where="effective and next > first and overlaps.next > first and overlaps.op != op",
        order=["tp", "first", "op"],
        ops="array(overlaps.op, op)",
        detail={
            "group": "group",
            "input": record_position("tp", "first"),
            "claims": "array(struct(tp as tp, overlaps.first as first, overlaps.next as next), "
            "struct(tp as tp, first as first, next as next))",
            "shared": "least(overlaps.next, next) - first",
            "operations": f"array({operation('overlaps.op')}, {operation()})",
        },
    ),
)
"""One finding for each range that begins inside another one."""


def _sentence(e: Example) -> str:
    count = e.rest.get("shared")
    shared = "" if count is None else f" ({printable(count)} offsets in both ranges)"
    names = [part.words for part in e.operations[:2]]
    return f"{join_words(names) if names else 'two operations'} both committed {e.input}{shared}"


WORDING = {
    "overlapping-commit": AnomalyWording(
        "pair of transactions committed the same inputs",
        "pairs of transactions committed the same inputs",
        "Two committed transactions of one group moved its offset over the same inputs.",
        _sentence,
    ),
}
