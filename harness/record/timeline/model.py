"""The model of a run's timeline: Arrow tables whose times count from the start of the run; notes on what is missing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import pyarrow as pa

from harness.common.errors import UnreadableInput
from harness.common.wording import printable


class Ending(StrEnum):
    """How a transaction ended. The brokers do not know why a transaction was aborted."""

    COMMITTED = "committed"
    ABORTED_ON_PURPOSE = "aborted on purpose"
    ABORTED = "aborted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    OPEN = "left open"


BY_JOURNALS = (Ending.COMMITTED, Ending.ABORTED_ON_PURPOSE, Ending.FAILED, Ending.UNKNOWN)
"""The endings in journals, in the order of display."""
BY_LOGS = (Ending.COMMITTED, Ending.ABORTED, Ending.OPEN)
"""The endings in broker logs, in the order of display."""

TRANSACTIONS = pa.schema(
    [
        ("name", pa.string()),  # the operation (`shop-2.1:10`); null: from the broker logs
        ("transactional_id", pa.string()),
        ("stage", pa.string()),
        ("process", pa.string()),  # the journal of the worker; null: not known
        ("begin_ns", pa.int64()),
        (
            "decided_ns",
            pa.int64(),
        ),  # when its commit was requested, or accepted by the coordinator; null: it was not
        ("end_ns", pa.int64()),  # when it ended for its client, or for the coordinator; null: it did not
        ("ending", pa.string()),
        ("fenced", pa.bool_()),  # null: not known
        ("error", pa.string()),
    ]
)
"""One row for each transaction of the pipeline."""

COMMITS = pa.schema([("tp", pa.int32()), ("time_ns", pa.int64()), ("records", pa.int64())])
"""One row for each partition of each commit: when its records became visible, and how many they are. A batch outside
transactions is a commit of its own.
"""


@dataclass(frozen=True)
class Timeline:
    """The transactions and commits of a run. Each table is empty if it cannot be read; `missing` says why."""

    transactions: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    commits: pa.Table = field(default_factory=COMMITS.empty_table)
    endings: tuple[Ending, ...] = BY_JOURNALS
    by_logs: bool = False
    missing: list[str] = field(default_factory=list)


T = TypeVar("T")


@dataclass
class Notes:
    """Collects the notes."""

    texts: list[str] = field(default_factory=list)

    def read(self, load: Callable[[], T]) -> T | None:
        """Return what `load` returns. None, and a note, if a table is missing or damaged or has other types."""
        try:
            return load()
        except (UnreadableInput, TypeError, ValueError, pa.ArrowException) as error:
            self.texts.append(printable(str(error), 300))
            return None
