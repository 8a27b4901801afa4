"""Undue fencing: a producer was fenced, and nobody had taken its place.

An operation was told that it is fenced, though from the last initialisation of its transactional id by
its own process to that answer nobody had begun to initialise the id, and though the transaction log has
no abort by time-out of that id since then.

Illegal because fencing is for those who were replaced, or have let their time-out pass; a producer that
did neither loses its work. It is a warning: what it had begun is aborted, and nothing is lost by it.
Evidence: the invocations of all initialisations, answered or not, on one clock; and the whole transaction
log. An abort by time-out is a PrepareAbort that stands at least the time-out above the start of its
transaction. Where the wall clock is not known, any abort by time-out of the id excuses it; where the time
of the answer is not known, so does all that came later.

    W1  init id=a                 ok
    W1  send x=1, commit          info, fenced              <- undue-fencing
    transaction log: a Ongoing [x]

Blind spot: others that use the same transactional id and record nothing.
Reference: KAFKA-17754, a late AddPartitionsToTxn or AddOffsetsToTxn that opens a transaction which nobody
ends.
"""

from pyspark.sql import DataFrame

from checkers.findings.build import finding, operation
from checkers.findings.rules import Suspect
from checkers.findings.wording import AnomalyWording
from checkers.spark.joins import broadcast
from checkers.stored.tables import Tables
from harness.model.vocabulary import Outcome
from harness.results.example import Example
from harness.results.wording import printable

ID = ("run", "transactional_id")
EARLIEST_NS, LATEST_NS = -(2**62), 2**62
CLOCKS_MS = 1_000
"""How far the wall clocks of a broker and of the run may stand apart."""
BY_ID = "over (partition by run, transactional_id order by at_ns range between unbounded preceding and"
BY_JOURNAL = BY_ID.replace("transactional_id order", "transactional_id, journal order")
"""Up to `current row`, or, for what was strictly before, up to `1 preceding`. Each is one pass over an id's events:
an id that all workers share is fenced thousands of times, so nothing here may look at each pair of its events."""
ANSWERED = f"outcome = '{Outcome.OK.value}'"
EXCUSED = "unanswered > 0 or called - own.returned > 1 or coalesce(aborted_ns >= own.call_ns, false)"
"""Another initialisation that may have come after its own, or an abort by time-out since its own.

An initialisation without an answer may come at any time. Of those with one, `called` had begun when the producer
was told that it is fenced, and `own.returned` had ended when its own began: its own is the one that is left."""
SUSPECTS = (Suspect("operations", "operation.transactional_id is not null and operation.fenced"),)


def undue_fencing(t: Tables) -> DataFrame:
    """One row for each operation."""
    said = t.operations.where("operation.transactional_id is not null").selectExpr(
        "run",
        "operation.transactional_id",
        "op",
        "operation.f",
        "operation.fenced",
        *(f"operation.{name}" for name in ("journal", "outcome", "call_ns", "return_ns")),
    )
    inits, fenced = said.where("f = 'init'"), said.where("fenced")
    return finding(
        _with_excuses(_with_own(t.inits, fenced), inits, _aborts(t)).where(
            f"own is not null and not ({EXCUSED})"
        ),
        "undue-fencing",
        order=["op"],
        ops="array(op)",
        absence="true",
        transactional_id="transactional_id",
        operation=operation("op"),
        own_init=operation("own.op"),
    )


def _with_own(answered: DataFrame, fenced: DataFrame) -> DataFrame:
    """`own` of each fenced operation: the last initialisation by its process that was answered before its call."""
    called = answered.selectExpr("*", "call_ns as at_ns", "0 as returned_one")
    returned = answered.selectExpr("run", "transactional_id", "return_ns as at_ns", "1 as returned_one")
    counted = (
        called.unionByName(returned, allowMissingColumns=True)
        .selectExpr("*", f"sum(returned_one) {BY_ID} current row) as returned")
        .where("op is not null")
        .selectExpr(*ID, "journal", "at_ns", "struct(call_ns, op, returned) as init")
    )
    return (
        fenced.selectExpr("*", "call_ns as at_ns")
        .unionByName(counted, allowMissingColumns=True)
        .selectExpr("*", f"max(init) {BY_JOURNAL} 1 preceding) as own")
        .where("fenced")
    )


def _with_excuses(fenced: DataFrame, inits: DataFrame, aborts: DataFrame) -> DataFrame:
    """Beside each fenced operation, what of its id was there when it was answered."""
    began = inits.selectExpr(*ID, "call_ns as at_ns", f"{ANSWERED} as answered")
    return (
        fenced.selectExpr(*ID, "op", "own", f"coalesce(return_ns, {LATEST_NS}) as at_ns")
        .unionByName(began, allowMissingColumns=True)
        .unionByName(aborts, allowMissingColumns=True)
        .selectExpr(
            "*",
            f"count_if(answered) {BY_ID} 1 preceding) as called",
            f"count_if(not answered) {BY_ID} 1 preceding) as unanswered",
            f"max(until_ns) {BY_ID} current row) as aborted_ns",
        )
        .where("op is not null")
    )


def _aborts(t: Tables) -> DataFrame:
    """Aborts by time-out, from `at_ns` until `until_ns` on the run's clock; always, where its wall clock is unknown."""
    at_ns = "cast(1000000 * (update_ms - wall_ms{by}) as long)"
    return (
        t.states.where("state = 'PrepareAbort' and update_ms >= start_ms + timeout_ms")
        .join(broadcast(t.runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr(
            *ID,
            f"coalesce({at_ns.format(by=f' - {CLOCKS_MS}')}, {EARLIEST_NS}) as at_ns",
            f"coalesce({at_ns.format(by=f' + {CLOCKS_MS}')}, {LATEST_NS}) as until_ns",
        )
    )


def _sentence(e: Example) -> str:
    error = e.first_operation().get("error")
    said = f" ({printable(error, 80)})" if error else ""
    return f"{e.operation} was fenced{said}, though nobody had taken {e.transactional_id} and no time-out had passed"


WORDING = {
    "undue-fencing": AnomalyWording(
        "producer was fenced for nothing",
        "producers were fenced for nothing",
        "A producer was told that it is fenced, though nobody had taken its transactional id and no "
        "time-out had passed.",
        _sentence,
    ),
}
