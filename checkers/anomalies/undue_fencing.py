"""Undue fencing: a producer was fenced, and nobody had taken its place.

An operation was told that it is fenced, though from the last initialisation of its transactional id by
its own process to that answer nobody had begun to initialise the id, and though the transaction log has
no abort by time-out of that id since then.

Illegal because fencing is for those who were replaced, or have let their time-out pass; a producer that
did neither loses its work. It is a warning: what it had begun is aborted, and nothing is lost by it.
Evidence: the invocations of all initialisations, answered or not, on one clock; and the whole transaction
log. An abort by time-out is a PrepareAbort that stands at least the time-out above the start of its
transaction. Where the wall clock is not known, any abort by time-out of the id excuses it.

    W1  init id=a                 ok
    W1  send x=1, commit          info, fenced              <- undue-fencing
    transaction log: a Ongoing [x]

Blind spot: others that use the same transactional id and record nothing.
Reference: KAFKA-17754, a late AddPartitionsToTxn or AddOffsetsToTxn that opens a transaction which nobody
ends.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.findings.told import Told
from checkers.stored.tables import Tables
from harness.history import Outcome
from harness.telling.example import Example
from harness.telling.words import printable

CLOCKS_MS = 1_000
"""How far the wall clocks of a broker and of the run may stand apart."""
OWN = f"i.journal = answer.journal and i.outcome = '{Outcome.OK.value}' and i.call_ns < answer.call_ns"
"""An initialisation by which the process that was fenced had its id."""
CLAIMS = f"""i.op != own.op and i.call_ns < answer.return_ns
    and (i.outcome != '{Outcome.OK.value}' or i.return_ns > own.call_ns)"""
"""Another initialisation that may have come after its own; one without an answer may come at any time."""
EXCUSES = f"""coalesce(abort_ms between wall_ms + own.call_ns / 1e6 - {CLOCKS_MS}
    and wall_ms + answer.return_ns / 1e6 + {CLOCKS_MS}, true)"""
"""An abort by time-out between its own initialisation and the answer."""


def undue_fencing(t: Tables) -> DataFrame:
    """One row for each operation."""
    event = "struct(operation.call_ns, op, operation.journal, operation.outcome, operation.return_ns)"
    said = t.operations.where(
        "operation.transactional_id is not null and (operation.f = 'init' or operation.fenced)"
    ).selectExpr(
        "run",
        "operation.transactional_id",
        f"if(operation.f = 'init', {event}, null) as init",
        f"if(operation.fenced, {event}, null) as fenced",
    )
    aborts = t.states.where("state = 'PrepareAbort' and update_ms >= start_ms + timeout_ms").selectExpr(
        "run", "transactional_id", "update_ms as abort_ms"
    )
    found = (
        said.unionByName(aborts, allowMissingColumns=True)
        .groupBy("run", "transactional_id")
        .agg(
            F.expr("collect_list(init) as inits"),
            F.expr("collect_list(fenced) as fenced"),
            F.expr("collect_list(abort_ms) as aborts"),
        )
        .where("size(fenced) > 0")
        .join(F.broadcast(t.runs.select("run", "wall_ms")), on="run", how="left")
        .selectExpr("*", "explode(fenced) as answer")
        .selectExpr("*", f"array_max(filter(inits, i -> {OWN})) as own")
        .where(
            f"own is not null and not exists(inits, i -> {CLAIMS}) "
            f"and not exists(aborts, abort_ms -> {EXCUSES})"
        )
    )
    return finding(
        found,
        "undue-fencing",
        order=["answer.op"],
        ops="array(answer.op)",
        absence="true",
        transactional_id="transactional_id",
        operation=operation("answer.op"),
        own_init=operation("own.op"),
    )


def _sentence(e: Example) -> str:
    error = e.first_operation().get("error")
    said = f" ({printable(error, 80)})" if error else ""
    return f"{e.operation} was fenced{said}, though nobody had taken {e.transactional_id} and no time-out had passed"


TOLD = {
    "undue-fencing": Told(
        "producer was fenced for nothing",
        "producers were fenced for nothing",
        "A producer was told that it is fenced, though nobody had taken its transactional id and no "
        "time-out had passed.",
        _sentence,
    ),
}
