"""The feeder of a table. It writes orders and their rows at a constant rate, in database transactions that overlap.

A row gets its number when it is written, and becomes visible when its transaction commits. Some transactions stay open
for a while, so that their rows become visible after rows with higher numbers. Some are rolled back. The inputs of a run
are the rows in the table at its end. A row whose commit was acknowledged but that is not in the table was lost.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from harness.databases.interface import CommitUnknown, DatabaseError, InputTable, NewTableRow
from harness.model.expectation import Feed
from harness.model.vocabulary import Outcome
from harness.processes.messages import Report
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import digest, value_name
from harness.roles.control import Control

TICK_S = 0.05
CONNECTIONS = 12
LATE_SHARE = 0.03
LATE_S = (0.1, 2.0)
"""The shortest and the longest time for which a late transaction stays open."""


@dataclass
class OpenTransaction:
    """A transaction of the feeder that has not ended."""

    op: int
    intended_end: str  # commit or abort
    until_s: float  # when it is to end, on the monotonic clock
    numbers: list[int]


@dataclass
class FeedConnection:
    """A connection with its open transaction, if any."""

    inputs: InputTable
    open: OpenTransaction | None = field(default=None)


class TableFeeder:
    """Writes inputs to a table until the run stops it."""

    def __init__(
        self,
        connect: Callable[[], InputTable],
        feed: Feed,
        rate: float,
        abort_share: float,
        seed: int,
        journal: Journal,
        control: Control,
    ) -> None:
        self._connections = [FeedConnection(connect()) for _ in range(CONNECTIONS)]
        self._feed = feed
        self._rate = rate
        self._abort_share = abort_share
        self._rng = Random(f"{seed}/inputs")
        self._fates = Random(f"{seed}/fates")
        self._journal = journal
        self._control = control
        self._input_count = 0
        self.acked = 0

    def run(self) -> None:
        """Wait for the command to go, write inputs until the run stops the feeder, and end open transactions."""
        self._control.report(Report(ready=True))
        self._control.await_go()
        begun_s = time.monotonic()
        while not self._control.stopping:
            self._end_due(time.monotonic())
            due = int((time.monotonic() - begun_s) * self._rate) - self._input_count
            while due > 0 and (count := self._write(-(-due // CONNECTIONS))):
                due -= count
            self._control.listen(TICK_S)
            self._control.report(Report(inputs_acked=self.acked))
        self._end_due(float("inf"))
        self._control.report(Report(inputs_acked=self.acked))
        for connection in self._connections:
            connection.inputs.close()

    def _write(self, count: int) -> int:
        """Write `count` orders in a new transaction, and end it unless it stays open. Return how many were written."""
        connection = self._free_connection()
        op, late = self._journal.number(), self._fates.random() < LATE_SHARE
        intended_end = "abort" if self._fates.random() < self._abort_share else "commit"
        until_s = time.monotonic() + (self._fates.uniform(*LATE_S) if late else 0.0)
        records = [self._feed.make(self._rng, self._input_count + n) for n in range(count)]
        sends = [[self._feed.topic, None, digest(record.key, record.value, [])] for record in records]
        self._journal.write(Invoked("send", 0, op, asked=intended_end, sends=sends))
        rows = [
            NewTableRow(value_name(self._journal.name, op, n), record.key, record.value)
            for n, record in enumerate(records)
        ]
        try:
            connection.open = OpenTransaction(op, intended_end, until_s, connection.inputs.write(rows))
        except DatabaseError as error:  # no commit was sent
            self._complete(op, Outcome.FAIL, (), str(error))
            return 0
        self._input_count += count
        if not late:
            self._end(connection)
        return count

    def _free_connection(self) -> FeedConnection:
        """Return a connection without a transaction. If there is none, end the transaction that is due first."""
        free = next((connection for connection in self._connections if connection.open is None), None)
        if free is not None:
            return free
        first = min(self._connections, key=lambda busy: busy.open.until_s if busy.open else 0.0)
        self._end(first)
        return first

    def _end_due(self, now_s: float) -> None:
        for connection in self._connections:
            if connection.open is not None and connection.open.until_s <= now_s:
                self._end(connection)

    def _end(self, connection: FeedConnection) -> None:
        """Commit or roll back the open transaction as planned, and record its completion."""
        assert connection.open is not None
        transaction, connection.open = connection.open, None
        if transaction.intended_end == "abort":
            connection.inputs.roll_back()
            self._complete(transaction.op, Outcome.FAIL, (), None)
            return
        try:
            connection.inputs.commit()
        except CommitUnknown as error:
            self._complete(transaction.op, Outcome.INFO, (), str(error))
        else:
            self.acked += len(transaction.numbers)
            self._complete(transaction.op, Outcome.OK, transaction.numbers, None)

    def _complete(self, op: int, outcome: Outcome, numbers: Sequence[int], error: str | None) -> None:
        acks = [(0, number) for number in numbers] or None
        self._journal.write(Completed(outcome, "send", 0, op, acks=acks, error=error))
