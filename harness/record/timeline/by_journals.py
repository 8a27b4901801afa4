"""Transactions and commits as the workers of a workload recorded them in their journals.

A transaction ends when its process gets the response to its commit. Its records are committed at that time.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from harness.model import vocabulary
from harness.record.table_reader import RunTables
from harness.record.timeline.model import BY_JOURNALS, COMMITS, TRANSACTIONS, Ending, Notes, Timeline

NO_STAGE = "no stage"
_OPS = (
    *("op", "name", "journal", "stage", "f", "transactional_id", "outcome", "asked"),
    *("call_ns", "commit_ns", "return_ns", "fenced", "error"),
)


def load(t: RunTables, *, with_commits: bool = True) -> Timeline:
    """Return the timeline. Missing or damaged tables are noted."""
    notes = Notes()
    ops = notes.read(partial(_transactions, t))
    if ops is None:
        return Timeline(missing=notes.texts)
    transactions = ops.select(TRANSACTIONS.names).cast(TRANSACTIONS)
    commits = notes.read(partial(_commits, t, ops)) if with_commits else None
    return Timeline(
        transactions, COMMITS.empty_table() if commits is None else commits, BY_JOURNALS, False, notes.texts
    )


def _transactions(t: RunTables) -> pa.Table:
    """Return the columns of `TRANSACTIONS`, and `op`."""
    ops = t.table("ops", _OPS, f=["txn"])
    ok = pc.fill_null(pc.equal(ops["outcome"], vocabulary.Outcome.OK.value), False)
    failed = pc.fill_null(pc.equal(ops["outcome"], vocabulary.Outcome.FAIL.value), False)
    to_abort = pc.fill_null(pc.equal(ops["asked"], "abort"), False)
    ending = pc.case_when(
        pc.make_struct(pc.and_(to_abort, pc.or_(ok, failed)), ok, failed),
        Ending.ABORTED_ON_PURPOSE.value,
        Ending.COMMITTED.value,
        Ending.FAILED.value,
        Ending.UNKNOWN.value,
    )
    columns = {
        "op": ops["op"],
        "name": ops["name"],
        "transactional_id": ops["transactional_id"],
        "stage": pc.fill_null(ops["stage"], NO_STAGE),
        "process": ops["journal"],
        "begin_ns": ops["call_ns"],
        "decided_ns": ops["commit_ns"],
        "end_ns": ops["return_ns"],
        "ending": ending,
        "fenced": ops["fenced"],
        "error": ops["error"],
    }
    return pa.table(columns)


def _commits(t: RunTables, transactions: pa.Table) -> pa.Table:
    """Return `COMMITS`: the acknowledged records of the committed transactions, by transaction and partition."""
    committed = transactions.filter(
        pc.and_(pc.equal(transactions["ending"], Ending.COMMITTED.value), transactions["end_ns"].is_valid())
    ).select(["op", "end_ns"])
    sends = t.table("sends", ("op", "tp"))
    by_op = sends.group_by(["op", "tp"]).aggregate([([], "count_all")])
    joined = by_op.join(committed, "op", join_type="inner")
    return pa.table(
        {"tp": joined["tp"], "time_ns": joined["end_ns"], "records": joined["count_all"]}, schema=COMMITS
    )
