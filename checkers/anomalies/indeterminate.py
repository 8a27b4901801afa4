"""Indeterminate operations: no evidence says whether they took effect. They are listed, and are no anomaly.

If an operation is `info` or never completed, its client does not know whether it took effect. Then the broker logs
decide: by the fate of its records and of its offset commit, or because the logs hold nothing of it. Without broker
logs, the reads decide: it committed if a reader received one of its values. All other operations of this kind are
indeterminate. They are counted, and the first ones are named. Their records are neither expected nor forbidden.

    txn    worker 3   info   wrote invoices/2: offset unknown
    final reader      came to the end, and did not receive that value
                      <- did it commit? This is not known without the broker logs
"""

from pyspark.sql import DataFrame

from checkers.external_tables import ExternalTables
from checkers.findings import Rule, finding, operation
from harness.record.history_form import INFO, OPEN

NAME = "unsettled"

RULES = (
    Rule(
        NAME,
        "operations",
        where="settled = 'unknown'",
        order=["op"],
        detail={"operation": operation()},
    ),
)
"""One finding for each operation of a stored run whose outcome neither its client nor the logs know."""


def indeterminate_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each operation that sent records, got no answer, and has no record that was ok-read."""
    unanswered = tables.attempts.where(f"not due and writer_outcome in ({INFO}, {OPEN})")
    operations = unanswered.select("run", "writer").distinct().withColumnRenamed("writer", "op")
    return finding(operations, NAME, order=["op"], operation=operation())
