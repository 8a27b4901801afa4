"""Undue fencing: a producer was fenced though no other producer had taken its place.

An operation got the answer that it is fenced. Since the last initialisation of its transactional id by its own process,
no process had begun to initialise that id. And the transaction log has no abort of that id by time-out since then.

Illegal because only a producer that was replaced, or that let its time-out pass, may be fenced. Any other producer
loses its work. It is a warning: the open transaction is aborted, and no record is lost.
Evidence: the invocations of all initialisations, answered or not, on one clock; and the whole transaction log. An abort
by time-out is a PrepareAbort that is at least the time-out later than the start of its transaction. If the wall clock
is not known, any abort by time-out of the id explains the fencing. If the time of the answer is not known, every later
event explains it too.

    W1  init id=a                 ok
    W1  send x=1, commit          info, fenced              <- undue-fencing
    transaction log: a Ongoing [x]

Blind spot: other programs that use the same transactional id and record nothing.
Reference: KAFKA-17754, a late AddPartitionsToTxn or AddOffsetsToTxn that opens a transaction which no producer ends.
"""

from pyspark.sql import DataFrame

from checkers.findings import AnomalyWording, Suspect, finding, operation
from checkers.spark.frames import broadcast
from checkers.stored.tables import Tables
from harness.common.wording import printable
from harness.model.vocabulary import Outcome
from harness.results.example import Example

ID = ("run", "transactional_id")
EARLIEST_NS, LATEST_NS = -(2**62), 2**62
CLOCKS_MS = 1_000
"""The largest difference between the wall clocks of a broker and of the run."""
BY_ID = "over (partition by run, transactional_id order by at_ns range between unbounded preceding and"
BY_JOURNAL = BY_ID.replace("transactional_id order", "transactional_id, journal order")
"""The end of the window follows: `current row`, or `1 preceding` for events that are strictly earlier. Each window is
one pass over the events of an id. No join may compare each pair of events, because an id that all workers share is
fenced thousands of times."""
ANSWERED = f"outcome = '{Outcome.OK.value}'"
EXPLAINED = "unanswered > 0 or called - own.returned > 1 or coalesce(aborted_ns >= own.call_ns, false)"
"""Another initialisation may have come after its own, or there was an abort by time-out after its own.

An initialisation without an answer may take effect at any time. For those with an answer: `called` counts those that
had begun when the producer was fenced, and `own.returned` those that had ended when its own began. If the difference is
1, only its own is left."""
SUSPECTS = (Suspect("operations", "operation.transactional_id is not null and operation.fenced"),)


def undue_fencing(tables: Tables) -> DataFrame:
    """Return one row for each fenced operation."""
    operations = tables.operations.where("operation.transactional_id is not null").selectExpr(
        "run",
        "operation.transactional_id",
        "op",
        "operation.f",
        "operation.fenced",
        *(f"operation.{name}" for name in ("journal", "outcome", "call_ns", "return_ns")),
    )
    inits, fenced = operations.where("f = 'init'"), operations.where("fenced")
    return finding(
        _with_explanations(_with_own(tables.inits, fenced), inits, _aborts(tables)).where(
            f"own is not null and not ({EXPLAINED})"
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
    """Add `own` to each fenced operation: the last initialisation by its process that was answered before its call."""
    called = answered.selectExpr("*", "call_ns as at_ns", "0 as is_return")
    returned = answered.selectExpr("run", "transactional_id", "return_ns as at_ns", "1 as is_return")
    counted = (
        called.unionByName(returned, allowMissingColumns=True)
        .selectExpr("*", f"sum(is_return) {BY_ID} current row) as returned")
        .where("op is not null")
        .selectExpr(*ID, "journal", "at_ns", "struct(call_ns, op, returned) as init")
    )
    return (
        fenced.selectExpr("*", "call_ns as at_ns")
        .unionByName(counted, allowMissingColumns=True)
        .selectExpr("*", f"max(init) {BY_JOURNAL} 1 preceding) as own")
        .where("fenced")
    )


def _with_explanations(fenced: DataFrame, inits: DataFrame, aborts: DataFrame) -> DataFrame:
    """Add to each fenced operation the initialisations and aborts of its id until its answer."""
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


def _aborts(tables: Tables) -> DataFrame:
    """Return the aborts by time-out, between `at_ns` and `until_ns` of the run's clock.

    If the wall clock of the run is not known, the range is unlimited.
    """
    at_ns = "cast(1000000 * (update_ms - wall_ms{by}) as long)"
    return (
        tables.states.where("state = 'PrepareAbort' and update_ms >= start_ms + timeout_ms")
        .join(broadcast(tables.runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr(
            *ID,
            f"coalesce({at_ns.format(by=f' - {CLOCKS_MS}')}, {EARLIEST_NS}) as at_ns",
            f"coalesce({at_ns.format(by=f' + {CLOCKS_MS}')}, {LATEST_NS}) as until_ns",
        )
    )


def _sentence(e: Example) -> str:
    error = e.first_operation.get("error")
    reason = f" ({printable(error, 80)})" if error else ""
    return (
        f"{e.operation} was fenced{reason}, but no other producer had initialised {e.transactional_id} and no time-out "
        "had passed"
    )


WORDING = {
    "undue-fencing": AnomalyWording(
        "producer was fenced without a reason",
        "producers were fenced without a reason",
        "A producer was fenced, but no other producer had initialised its transactional id and no time-out had passed.",
        _sentence,
    ),
}
