"""The final reads: starts the final readers, waits for them, and restarts those that fail.

For a short run, one reader for each isolation level is enough. The read-uncommitted reader has the most work, because
it computes the expected outputs of each input. In a long run, several read-uncommitted readers share the partitions.
The results of a reader count only after it has read to the end, so a reader that was killed or failed is restarted from
the beginning.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.common.errors import EnvironmentFailure, FencepostError
from harness.common.waiting import wait_while_progressing
from harness.model.pipeline import TopicPartition
from harness.model.promises import FINAL_JOURNAL, STORE_READER
from harness.model.vocabulary import Isolation
from harness.processes.specs import FinalReaderSpec, ReaderSpec, TableReaderSpec
from harness.runner.processes import Processes, unexpected_end
from harness.runner.run_process import RunProcess

MANY_RECORDS = 200_000
"""With at least this many records, one more reader saves more time than its start costs (1 s)."""
MAX_READERS = 4
MAX_STARTS = 3


def read_all(
    processes: Processes,
    topic_partitions: Sequence[TopicPartition],
    records: int,
    stall_timeout_s: float,
    tables: Sequence[str] = (),
    every_s: float = 0.05,
    end_offsets: Mapping[TopicPartition, int] | None = None,
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Read every partition to its end at each isolation level, and every table of a database.

    Args:
        processes: Starts the readers.
        topic_partitions: The partitions.
        records: The approximate number of records in all partitions.
        stall_timeout_s: How long to wait while no reader reads anything, in seconds.
        tables: The tables of the database.
        every_s: The time between two checks of the readers, in seconds.
        end_offsets: The end offset of each partition; None or empty: sentinels mark the ends.
        on_started: Called after all readers are started. They begin to read about a second later.

    Raises:
        WaitTimeout: The readers made no progress for `stall_timeout_s`.
        EnvironmentFailure: A reader failed repeatedly. The other readers have ended.
    """
    readers: list[_Reader] = []
    try:
        for journal, task in assign_readers(
            topic_partitions, records, os.cpu_count() or 1, tables, end_offsets or {}
        ).items():
            readers.append(_Reader(processes, journal, task))
        on_started()
        wait_while_progressing(
            # This is a list and not a generator, so that `done` is called on each reader and restarts it.
            lambda: not [reader for reader in readers if not reader.done()],
            lambda: [(reader.starts, reader.process.status.records_read) for reader in readers],
            "the final readers to read every partition to its end",
            stall_timeout_s,
            every_s=every_s,
            last_seen=lambda: ", ".join(str(reader) for reader in readers),
        )
    except FencepostError:
        # A reader that is stopped writes the end of its read. The checkers use that.
        processes.stop([reader.process for reader in readers])
        raise
    for reader in readers:
        if reader.failed:
            raise EnvironmentFailure(f"{reader.describe_end()}; it had failed {MAX_STARTS - 1} times before")


def assign_readers(
    topic_partitions: Sequence[TopicPartition],
    records: int,
    cpus: int,
    tables: Sequence[str] = (),
    end_offsets: Mapping[TopicPartition, int] | None = None,
) -> Mapping[str, ReaderSpec]:
    """Return, by journal name, the task of each final reader."""
    most = min(cpus, MAX_READERS) if records >= MANY_RECORDS else 1
    tasks: dict[str, ReaderSpec] = {}
    for level in Isolation:
        count = most if level is Isolation.READ_UNCOMMITTED else 1
        for n in range(min(count, len(topic_partitions)) or 1):
            name = f"{FINAL_JOURNAL}{level}" if n == 0 else f"{FINAL_JOURNAL}{level}-{n + 1}"
            own_topic_partitions = tuple(topic_partitions[n::count])
            tasks[name] = FinalReaderSpec(
                level,
                own_topic_partitions,
                tuple(end_offsets[topic_partition] for topic_partition in own_topic_partitions)
                if end_offsets
                else None,
            )
    if tables:
        tasks[STORE_READER] = TableReaderSpec(tuple(tables))
    return tasks


class _Reader:
    """One final reader, with its restarts."""

    def __init__(self, processes: Processes, journal: str, task: ReaderSpec) -> None:
        self._processes = processes
        self._start = partial(processes.start_harness_process, journal, "harness", task)
        self.starts = 1
        self.process: RunProcess = self._start()

    def done(self) -> bool:
        """Return whether the reader has finished or failed too often. If it failed, start it again."""
        if self.process.alive:
            return False
        if self.process.child.poll() == 0 or self.failed:
            return True
        message = f"{self.describe_end()}; it was started again"
        self._processes.unexpected_ends.append(unexpected_end(self.process.journal, message))
        self.starts += 1
        self.process = self._start()
        return False

    @property
    def failed(self) -> bool:
        """True if the last permitted start has failed."""
        return self.starts == MAX_STARTS and self.process.child.poll() not in (0, None)

    def describe_end(self) -> str:
        ending, output = self.process.child.ending(), self.process.last_output()
        return f"{self.process.journal}: {ending}: {output}"

    def __str__(self) -> str:
        return f"{self.process.journal} has read {self.process.status.records_read} records"
