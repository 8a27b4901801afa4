"""Zombie write: a producer that had been replaced still took effect.

A batch of fate commit is above a batch of a higher epoch of the same producer id in its partition. Or a transaction
committed though another process had initialised its transactional id. That initialisation came after the one of the
transaction's own process, and before this process asked for the commit.

Illegal because initialising a transactional id fences all producers that had it before. This keeps two owners of one
input apart.
Evidence: epochs in the leader's log. Or the times of the two initialisations and of the commit, on one clock, and the
fact that the commit took effect.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  send x=1, commit     ok      <- zombie-write

Blind spot: zombies with another transactional id. The generation of the group must stop those (KIP-447).
Reference: KIP-98, "fencing zombies"; KIP-360.
"""

from pyspark.sql import DataFrame

from checkers.findings.build import finding, operation, record_position
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from checkers.stored.tables import Tables
from harness.results.example import Example
from harness.results.wording import printable

NAME = "zombie-write"
EFFECTIVE = """array_contains(records.effect, 'commit') or array_contains(commits.effect, 'commit')
    or size(records) > 0 and forall(records, r -> not r.logged) and settled = 'committed'"""
"""An operation took effect, by the log, or, without a log, by what was read."""
BY_ID = "partition by run, transactional_id"
EARLIER = f"over ({BY_ID} order by time_ns range between unbounded preceding and 1 preceding)"

RULES = (
    Rule(
        NAME,
        "batches",
        where="transactional and fate = 'commit' and epoch < epoch_before",
        order=["tp", "base_offset"],
        detail={
            "record": record_position("tp", "base_offset"),
            "epoch": "epoch",
            "epoch_before": "epoch_before",
            "why": "'a higher epoch is below it'",
        },
    ),
)
"""One finding for each batch."""


def zombie_write(t: Tables) -> DataFrame:
    """Return one row for each transaction."""
    commits = t.operations.where(f"operation.commit_ns is not null and ({EFFECTIVE})").selectExpr(
        "run", "op", "operation.transactional_id", "operation.journal", "operation.commit_ns as time_ns"
    )
    inits = t.inits.selectExpr(
        "run",
        "transactional_id",
        "journal",
        "return_ns as time_ns",
        "struct(call_ns, return_ns, op, journal) as init",
    )
    zombies = (
        commits.unionByName(inits, allowMissingColumns=True)
        .selectExpr(
            "*",
            f"max(init) {EARLIER} as latest",
            f"last(init, true) over ({BY_ID}, journal order by time_ns) as own",
        )
        .where("op is not null and latest.journal != journal and latest.call_ns > own.return_ns")
    )
    return finding(
        zombies,
        NAME,
        order=["op"],
        ops="array(op)",
        operation=operation(),
        own_init=operation("own.op"),
        other_init=operation("latest.op"),
        why="'another process had initialised its transactional id'",
    )


def _sentence(e: Example) -> str:
    epoch, higher = e.rest.get("epoch", e.first_record.get("epoch")), e.rest.get("epoch_before")
    if epoch is not None and higher is not None:
        above = f"above epoch {printable(higher)} of the same producer"
        return f"{e.record} of epoch {printable(epoch)} was committed {above}"
    other_init = e.part("other_init")
    who = other_init.words if other_init else "another process"
    return f"{e.operation} was committed after {who} had taken over its transactional id"


WORDING = {
    "zombie-write": AnomalyWording(
        "write of a fenced producer took effect",
        "writes of fenced producers took effect",
        "A producer that was replaced by another one must be fenced. Here its write was committed.",
        _sentence,
    ),
}
