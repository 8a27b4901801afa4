"""Precommitted read: a transaction was given a record that it had itself sent, and not yet committed.

Illegal because a consumer that is promised read committed is given committed records alone, and its own
transaction's are not: Kafka has no read-your-writes.
Evidence: one operation, of any outcome, that sent a record and polled it; the order of its steps does not
matter.

    T1  send x=1, poll x: 1 at offset 4      ok      <- precommitted-read

Blind spot: a record that another transaction was given too early is a `dirty-read`, and needs the log.
Reference: Jepsen's Kafka checker, `precommitted-read`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.finding import finding, operation
from checkers.told import Told


def precommitted_read_told(t: Told) -> DataFrame:
    """One row for each operation and record."""
    return finding(
        t.reads.where("own").dropDuplicates(["run", "op", "key", "value"]),
        "precommitted-read",
        order=["op", "key", "value"],
        ops=F.array("op"),
        record=F.struct("key", "value", "offset"),
        operation=operation(),
    )
