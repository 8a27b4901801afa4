"""The final reads: whoever reads every partition whole once nothing moves any more, started, watched, started again.

One reader at each isolation level is enough for a short run. The read-uncommitted one does the most (it works out
what each input must lead to), so a long log is dealt out to several of them, by partition. A reader leaves nothing
that matters until it has come to its end, so one that was killed or that failed is started again from the beginning.
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
from harness.runner.member import RunProcess
from harness.runner.processes import Processes, unexpected_end

MANY_RECORDS = 200_000
"""From here on a second reader costs less than it saves: it takes a second to come up."""
MOST_READERS = 4
MOST_STARTS = 3


def read_all(
    processes: Processes,
    places: Sequence[TopicPartition],
    records: int,
    patience_s: float,
    tables: Sequence[str] = (),
    every_s: float = 0.05,
    until: Mapping[TopicPartition, int] | None = None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Have every partition read at each isolation level, up to its end, and every table of a store.

    `records`: about how many there are in all; `until`: where each partition ends, if no record says so; `started` is
    called once all readers are on their way, which takes them a second. Raises `WaitTimeout` where nothing was read
    for `patience_s`, and `EnvironmentFailure` where a reader failed again and again; the others have then come as far
    as they could.
    """
    readers: list[_Reader] = []
    try:
        for journal, task in assign_readers(
            places, records, os.cpu_count() or 1, tables, until or {}
        ).items():
            readers.append(_Reader(processes, journal, task))
        started()
        wait_while_progressing(
            lambda: not [reader for reader in readers if not reader.done()],  # each is looked after
            lambda: [(reader.starts, reader.member.status.given) for reader in readers],
            "the final readers to come to the end of every partition",
            patience_s,
            every_s=every_s,
            last_seen=lambda: ", ".join(str(reader) for reader in readers),
        )
    except FencepostError:
        # Each then says how far it came, and the checkers take it from there.
        processes.stop([reader.member for reader in readers])
        raise
    for reader in readers:
        if reader.failed:
            raise EnvironmentFailure(f"{reader.words()}, as it did {MOST_STARTS - 1} times before")


def assign_readers(
    places: Sequence[TopicPartition],
    records: int,
    cpus: int,
    tables: Sequence[str] = (),
    until: Mapping[TopicPartition, int] | None = None,
) -> Mapping[str, ReaderSpec]:
    """Return the task of each reader by the name of its journal."""
    many = min(cpus, MOST_READERS) if records >= MANY_RECORDS else 1
    dealt: dict[str, ReaderSpec] = {}
    for level in Isolation:
        hands = many if level is Isolation.READ_UNCOMMITTED else 1
        for n in range(min(hands, len(places)) or 1):
            name = f"{FINAL_JOURNAL}{level}" if n == 0 else f"{FINAL_JOURNAL}{level}-{n + 1}"
            mine = tuple(places[n::hands])
            dealt[name] = FinalReaderSpec(
                level, mine, tuple(until[place] for place in mine) if until else None
            )
    if tables:
        dealt[STORE_READER] = TableReaderSpec(tuple(tables))
    return dealt


class _Reader:
    """A reader, however often it was started."""

    def __init__(self, processes: Processes, journal: str, task: ReaderSpec) -> None:
        self._processes = processes
        self._start = partial(processes.start_other, journal, "harness", task)
        self.starts = 1
        self.member: RunProcess = self._start()

    def done(self) -> bool:
        """Whether it has come to its end, or has failed too often; starts it again if it failed."""
        if self.member.alive:
            return False
        if self.member.child.poll() == 0 or self.failed:
            return True
        words = f"{self.words()}; it was started again"
        self._processes.unexpected_ends.append(unexpected_end(self.member.journal, words))
        self.starts += 1
        self.member = self._start()
        return False

    @property
    def failed(self) -> bool:
        """Whether it has failed as often as it may."""
        return self.starts == MOST_STARTS and self.member.child.poll() not in (0, None)

    def words(self) -> str:
        """How it ended."""
        ending, last = self.member.child.ending(), self.member.last_output()
        return f"{self.member.journal}: {ending}: {last}"

    def __str__(self) -> str:
        return f"{self.member.journal} was given {self.member.status.given} records"
