"""A table of inputs without a database: one process, one transaction at a time, errors as they are ordered."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.databases.interface import CommitUnknown, DatabaseError, NewTableRow, Range, TableRow


@dataclass
class FakeInputs:
    """What it did stands in `did`; `fails` orders errors by the name of the call."""

    rows: list[TableRow] = field(default_factory=list)  # visible
    fails: set[str] = field(default_factory=set)
    did: list[tuple[object, ...]] = field(default_factory=list)
    beyond: int = 0
    numbers: int = 0
    _written: list[TableRow] = field(default_factory=list)
    _marked: set[int] = field(default_factory=set)
    _moved: int | None = None

    def do(self, *what: object) -> None:
        """Note a call, or fail as ordered."""
        self.did.append(what)
        if what[0] in self.fails:
            raise (CommitUnknown if what[0] == "commit" else DatabaseError)(f"{what[0]} was to fail")

    def write(self, rows: Sequence[NewTableRow]) -> list[int]:
        self.do("write", len(rows))
        for row in rows:
            self.numbers += 1
            self._written.append(TableRow(row.value, row.key, row.content, self.numbers))
        return [row.number for row in self._written[-len(rows) :]]

    def take(self, max_records: int) -> list[TableRow]:
        self.do("take")
        return [row for row in self.rows if not row.done][:max_records]

    def take_after_position(self, max_records: int) -> list[TableRow]:
        self.do("take-beyond")
        return [row for row in self.rows if row.number > self.beyond][:max_records]

    def mark(self, numbers: Sequence[int]) -> None:
        self.do("mark", *numbers)
        self._marked |= set(numbers)

    def move_position(self, number: int) -> None:
        self.do("move-beyond", number)
        self._moved = number

    def commit(self) -> None:
        self.do("commit")
        self.rows = [replace(row, done=row.done or row.number in self._marked) for row in self.rows]
        self.rows += self._written
        self.beyond = self.beyond if self._moved is None else self._moved
        self._written, self._marked, self._moved = [], set(), None

    def roll_back(self) -> None:
        self._written, self._marked, self._moved = [], set(), None

    def count_pending(self, within: Range | None = None) -> int:
        self.do("pending")
        return sum(not row.done for row in self.rows)

    def read_all(self) -> tuple[list[TableRow], int]:
        return self.rows, self.numbers + 1

    def close(self) -> None:
        self.did.append(("close",))
