"""The feeder of a table: writes orders with their rows at a rate, in database transactions that overlap.

A row has its number from the moment it is written and is visible once its transaction has committed. Some transactions
stay open for a while, so that their rows become visible after rows with higher numbers; some are rolled back. What
stands in the table at the end is the input; a row that was told to be committed, and is not there, was lost.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from harness.databases.interface import CommitUnknown, DatabaseError, InputTable, NewTableRow
from harness.model.expectation import Feed
from harness.model.vocabulary import Outcome
from harness.processes.control_line import Report
from harness.record.events import Completed, Invoked
from harness.record.journal import Journal
from harness.record.naming import digest, value_name
from harness.roles.control import Control

TICK_S = 0.05
CONNECTIONS = 12
LATE_SHARE = 0.03
LATE_S = (0.1, 2.0)
"""For how long a transaction that stays open does, at least and at most."""


@dataclass
class OpenTransaction:
    """A transaction under way."""

    op: int
    asked: str  # how it is to end: commit or abort
    until_s: float  # when, on the monotonic clock
    numbers: list[int]


@dataclass
class FeedConnection:
    """A connection, and the transaction on it."""

    inputs: InputTable
    open: OpenTransaction | None = field(default=None)


class TableFeeder:
    """Feeds a table until it is told to stop."""

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
        self._lines = [FeedConnection(connect()) for _ in range(CONNECTIONS)]
        self._feed = feed
        self._rate = rate
        self._abort_share = abort_share
        self._rng = Random(f"{seed}/inputs")
        self._fates = Random(f"{seed}/fates")
        self._journal = journal
        self._control = control
        self._made = 0
        self.acked = 0

    def run(self) -> None:
        """Once told to go, write what is due, tick by tick, until told to stop; then end what is open."""
        self._control.report(Report(ready=True))
        self._control.await_go()
        begun = time.monotonic()
        while not self._control.stopping:
            self._end_due(time.monotonic())
            due = int((time.monotonic() - begun) * self._rate) - self._made
            while due > 0 and (count := self._write(-(-due // CONNECTIONS))):
                due -= count
            self._control.listen(TICK_S)
            self._control.report(Report(fed=self.acked))
        self._end_due(float("inf"))
        self._control.report(Report(fed=self.acked))
        for line in self._lines:
            line.inputs.close()

    def _write(self, count: int) -> int:
        """Begin a transaction with so many orders, and end it unless it is to stay open; how many were written."""
        line = self._free()
        op, late = self._journal.number(), self._fates.random() < LATE_SHARE
        asked = "abort" if self._fates.random() < self._abort_share else "commit"
        until_s = time.monotonic() + (self._fates.uniform(*LATE_S) if late else 0.0)
        fed = [self._feed.make(self._rng, self._made + n) for n in range(count)]
        sends = [[self._feed.topic, None, digest(one.key, one.value, [])] for one in fed]
        self._journal.write(Invoked("send", 0, op, asked=asked, sends=sends))
        rows = [
            NewTableRow(value_name(self._journal.name, op, n), one.key, one.value)
            for n, one in enumerate(fed)
        ]
        try:
            line.open = OpenTransaction(op, asked, until_s, line.inputs.write(rows))
        except DatabaseError as error:  # its transaction was never asked to commit
            self._completed(op, Outcome.FAIL, (), str(error))
            return 0
        self._made += count
        if not late:
            self._end(line)
        return count

    def _free(self) -> FeedConnection:
        """A connection without a transaction: that of the one which is to end first, if there is none."""
        free = next((line for line in self._lines if line.open is None), None)
        if free is not None:
            return free
        first = min(self._lines, key=lambda line: line.open.until_s if line.open else 0.0)
        self._end(first)
        return first

    def _end_due(self, now_s: float) -> None:
        for line in self._lines:
            if line.open is not None and line.open.until_s <= now_s:
                self._end(line)

    def _end(self, line: FeedConnection) -> None:
        """End the transaction as it was to end, and write down what was told of it."""
        assert line.open is not None
        one, line.open = line.open, None
        if one.asked == "abort":
            line.inputs.roll_back()
            self._completed(one.op, Outcome.FAIL, (), None)
            return
        try:
            line.inputs.commit()
        except CommitUnknown as error:
            self._completed(one.op, Outcome.INFO, (), str(error))
        else:
            self.acked += len(one.numbers)
            self._completed(one.op, Outcome.OK, one.numbers, None)

    def _completed(self, op: int, outcome: Outcome, numbers: Sequence[int], error: str | None) -> None:
        acks = [(0, number) for number in numbers] or None
        self._journal.write(Completed(outcome, "send", 0, op, acks=acks, error=error))
