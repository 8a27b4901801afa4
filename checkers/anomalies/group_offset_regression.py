"""Group offset regression: a group's committed offset of a partition went down.

Only offset commits that took effect count: those of committed transactions, and those outside any transaction. Their
order is the order of their records in `__consumer_offsets`, where all records of a group are in one partition. The
order of the markers does not count, because an offset takes effect by the position of its record. An offset that was
deleted (a tombstone) ends the comparison.

Illegal because the next member of the group starts at the lower offset and processes inputs again.
Evidence: the leader's log of `__consumer_offsets`.

    log of __consumer_offsets: group g, a->8     commit
    log of __consumer_offsets: group g, a->5     abort
    log of __consumer_offsets: group g, a->6     commit     <- group-offset-regression

Blind spot: offset commits that compaction removed. An administrator who resets a group on purpose causes the same
finding.
Reference: "late offset commit", a TxnOffsetCommit that outlives its transaction; KIP-447.
"""

from pyspark.sql import DataFrame

from checkers.findings import AnomalyWording, finding, record_position
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.results.example import Example, Record


def group_offset_regression(tables: Tables) -> DataFrame:
    """Return one row for each offset commit below the one before it."""
    commits = tables.log_entries.where("commit is not null and fate in ('commit', 'plain')").selectExpr(
        "run",
        "commit.group",
        "commit.tp",
        "offset as log_offset",
        "struct(tp, offset, commit.op as op, commit.committed as committed, producer_id, epoch, fate) as "
        "commit",
    )
    steps = commits.selectExpr(
        "*", "lag(commit) over (partition by run, group, tp order by log_offset) as before"
    )
    return finding(
        steps.where("commit.committed < before.committed"),
        "group-offset-regression",
        order=["tp", "log_offset"],
        ops="array(commit.op, before.op)",
        group="group",
        input=record_position("tp", "commit.committed"),
        committed="commit.committed",
        committed_before="before.committed",
        record="commit",
        record_before="before",
    )


def _sentence(e: Example) -> str:
    rest = e.rest
    where = e.inputs[0].partition if e.inputs else "an unknown partition"
    who = "the group" if rest.get("group") is None else f"group {printable(rest['group'], 60)}"
    by = f", by {e.operation}" if e.operations else ""
    change = f"from {printable(rest.get('committed_before'))} to {printable(rest.get('committed'))}"
    return f"the committed offset of {who} for {where} went back {change}{by}{_in_another(e)}"


def _in_another(e: Example) -> str:
    """Name the operation whose transaction has the offset commit, if it is not the one that sent it."""
    after, before = e.part("record"), e.part("record_before")
    if not isinstance(after, Record) or not isinstance(before, Record):
        return ""
    same_marker = after.get("marker_offset") is not None and after.get("marker_offset") == before.get(
        "marker_offset"
    )
    own, other = e.writer(after), e.writer(before)
    if not same_marker or own is None or other is None or own.get("op") == other.get("op"):
        return ""
    return f", whose offset commit arrived late, in the transaction of {other.words}"


WORDING = {
    "group-offset-regression": AnomalyWording(
        "committed offset went back",
        "committed offsets went back",
        "A group's committed offset of a partition went down, so the next member of the group repeats inputs.",
        _sentence,
    ),
}
