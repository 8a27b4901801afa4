"""Operations of which nobody can say whether they took effect: no anomaly, but listed with the verdict.

A client that was told nothing (`info`, or never anything at all) is settled by what the logs say: the fate
of its records and of its offset commit, or that they hold nothing of it. Where there are no logs, by what
was read: it has committed if one of its values was given to a reader. What is left is counted, and the
first are named: their records are neither missed nor held against anybody.

    txn    worker 3   info   wrote invoices/2: offset unknown
    final reader      came to the end, and was not given that value
                      <- did it commit? without the brokers' logs nobody knows
"""

from pyspark.sql import DataFrame

from checkers.external.tables import ExternalTables
from checkers.findings.build import finding, operation
from checkers.findings.rules import Rule
from harness.history_files.schema import INFO, OPEN

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
"""One finding for each operation of a stored run that neither its client nor the logs settle."""


def indeterminate_external(t: ExternalTables) -> DataFrame:
    """One row for each operation that sent something, was told nothing, and of which nothing was ok-read."""
    doubtful = t.attempts.where(f"not due and writer_outcome in ({INFO}, {OPEN})")
    found = doubtful.select("run", "writer").distinct().withColumnRenamed("writer", "op")
    return finding(found, NAME, order=["op"], operation=operation())
