"""Send skip inside an operation: records of others stand between two that it sent to one key in turn.

Illegal because a transaction's records would stand together if transactions were isolated from each other. In
Kafka they are not: it interleaves the writes of transactions by design, so this is listed and always allowed.
Nor is it looked for in stored runs, for it would be found in every one of them and tell nothing.
Evidence: the offsets of the records, told to their sender or to anybody who was given them.

    P0  send x=1, send x=3                                       ok
    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 6            <- int-send-skip, over 2

Blind spot: a record whose offset nobody knows has no place in the order.
Reference: Jepsen's Kafka checker, `int-send-skip`.
"""

from pyspark.sql import DataFrame

from checkers.external.jumps import SKIPS
from checkers.external.lines import line
from checkers.external.tables import ExternalTables
from checkers.findings.build import jump_findings
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import printable


def int_send_skip_external(t: ExternalTables) -> DataFrame:
    """One row for each pair of neighbours."""
    return jump_findings(t.jumps.where("not polled and inside").where(SKIPS), "'int-send-skip'")


def _sentence(e: Example) -> str:
    return printable(line(e.body), 5000)


WORDING = {
    "int-send-skip": AnomalyWording(
        "operation sent records that stand apart",
        "operations sent records that stand apart",
        "Records of others stand between two that one operation sent to one key. Kafka allows it.",
        _sentence,
    ),
}
