"""Zombie write: a producer that had been replaced still took effect.

A batch of fate commit is above a batch of a higher epoch of the same producer id in its partition. Or a transaction
committed though another process had initialised its transactional id. That initialisation came after the one of the
transaction's own process, and before this process asked for the commit. Or a record, an offset commit or a marker has
an epoch that the coordinator did not give to its transaction:

- A committed batch must have the epoch of the last Ongoing state of its transaction in the transaction log.
- A marker must have the epoch of the Prepare state. That is the epoch of the data. An abort may raise it by one, and
  under transaction version 2 each end of a transaction raises it by one.
- Where the transaction log does not show the transaction, the marker of a committed batch may be one above the batch.

Illegal because initialising a transactional id fences all producers that had it before. This keeps two owners of one
input apart.
Evidence: epochs in the leader's log and in the transaction log. Or the times of the two initialisations and of the
commit, on one clock, and the fact that the commit took effect.

    W1  init id=a     ok
    W2  init id=a     ok
    W1  send x=1, commit     ok      <- zombie-write

    log of x: record of producer 7, epoch 0, at offset 4; commit of epoch 2 at offset 5      <- zombie-write

Without journals: the epochs are the only evidence.

Not this anomaly: records that took effect though their own client did not commit them are a `ghost-commit`. A
transaction of which only a part took effect is a `torn-transaction`. Both look at what one operation wrote, this one at
which producer may write. An aborted record of a wrong epoch took no effect, and only `epoch-regression` finds it.
Blind spot: zombies with another transactional id. The generation of the group must stop those (KIP-447). Epochs where
the markers of a producer cannot be paired with the transaction log.
Reference: KIP-98, "fencing zombies"; KIP-360; KIP-890, "bump epoch on each transaction".
"""

from pyspark.sql import DataFrame

from checkers.findings import AnomalyWording, Rule, finding, operation, record_position
from checkers.spark.frames import prefer_hash_join
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.results.example import Example

NAME = "zombie-write"
EFFECTIVE = """array_contains(records.effect, 'commit') or array_contains(commits.effect, 'commit')
    or size(records) > 0 and forall(records, r -> not r.logged) and settled = 'committed'"""
"""An operation took effect, by the log, or, without a log, by what was read."""
BY_ID = "partition by run, transactional_id"
EARLIER = f"over ({BY_ID} order by time_ns range between unbounded preceding and 1 preceding)"
COMMITTED = "transactional and fate = 'commit'"
NOT_GIVEN = "its transaction had another epoch"

RULES = (
    Rule(
        NAME,
        "batches",
        where=f"{COMMITTED} and epoch < epoch_before",
        order=["tp", "base_offset"],
        detail={
            "record": record_position("tp", "base_offset"),
            "epoch": "epoch",
            "epoch_before": "epoch_before",
            "why": "'a higher epoch is below it'",
        },
    ),
    Rule(
        NAME,
        "markers",
        where="not doubtful and epoch != prepared_epoch",
        order=["tp", "marker_offset"],
        detail={
            "record": "struct(tp as tp, marker_offset as offset, producer_id as producer_id, epoch as epoch)",
            "marker": "marker",
            "transactional_id": "transactional_id",
            "epoch": "epoch",
            "epoch_given": "prepared_epoch",
            "why": f"'{NOT_GIVEN}'",
        },
    ),
)
"""One finding for each batch or marker."""


def zombie_write(tables: Tables) -> DataFrame:
    """Return one row for each transaction of a replaced process, and for each committed batch of a wrong epoch."""
    return _after_another_process(tables).unionByName(_of_another_epoch(tables))


def _of_another_epoch(tables: Tables) -> DataFrame:
    transactions = tables.markers.where("not doubtful").select(
        "run", "tp", "marker_offset", "transactional_id", "given_epoch"
    )
    wrong = (
        tables.batches.where(f"{COMMITTED} and coalesce(epoch >= epoch_before, true)")
        .join(prefer_hash_join(transactions), on=["run", "tp", "marker_offset"], how="left")
        .where("coalesce(epoch != given_epoch, marker_epoch - epoch not in (0, 1))")
    )
    return finding(
        wrong,
        NAME,
        order=["tp", "base_offset"],
        record=record_position("tp", "base_offset"),
        producer_id="producer_id",
        transactional_id="coalesce(transactional_id, state.transactional_id)",
        epoch="epoch",
        epoch_given="coalesce(given_epoch, marker_epoch)",
        why=f"'{NOT_GIVEN}'",
    )


def _after_another_process(tables: Tables) -> DataFrame:
    commits = tables.operations.where(f"operation.commit_ns is not null and ({EFFECTIVE})").selectExpr(
        "run", "op", "operation.transactional_id", "operation.journal", "operation.commit_ns as time_ns"
    )
    inits = tables.inits.selectExpr(
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
    given = e.rest.get("epoch_given")
    if epoch is not None and given is not None:
        what = "the marker at" if e.rest.get("marker") is not None else "the batch at"
        whose = e.rest.get("transactional_id")
        of_id = "" if whose is None else f" of {printable(whose, 60)}"
        took = "decided" if e.rest.get("marker") is not None else "is committed in"
        return (
            f"{what} {e.first_record.position} has epoch {printable(epoch)} and {took} a transaction{of_id} that has "
            f"epoch {printable(given)}"
        )
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
