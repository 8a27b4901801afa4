"""Send skip inside an operation: other records are between two that one operation sent to one key in a row.

Illegal because the records of a transaction would be next to each other if transactions were isolated. But Kafka
interleaves the writes of transactions by design, so this is listed and always allowed. Stored runs are not checked,
because every one of them would have such findings.
Evidence: the offsets of the records, which their sender or a reader got.

    P0  send x=1, send x=3                                       ok
    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 6            <- int-send-skip, over 2

Blind spot: a record without a known offset has no place in the order.
Reference: Jepsen's Kafka checker, `int-send-skip`.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import SKIPS, ExternalTables
from checkers.findings import AnomalyWording, example_line, jump_findings
from harness.common.wording import printable
from harness.results.example import Example


def int_send_skip_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each pair of neighbours."""
    return jump_findings(tables.jumps.where("not polled and inside").where(SKIPS), "'int-send-skip'")


def _sentence(e: Example) -> str:
    return printable(example_line(e), 5000)


WORDING = {
    "int-send-skip": AnomalyWording(
        "operation sent records that are not next to each other",
        "operations sent records that are not next to each other",
        "Other records are between two that one operation sent to one key in a row. Kafka allows it.",
        _sentence,
    ),
}
