"""A table of inputs in memory, for one process with one transaction at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.databases.interface import CommitUnknown, DatabaseError, NewTableRow, Range, TableRow


@dataclass
class FakeInputs:
    """A table of inputs. `calls` has every call, and `fails` has the names of the calls that raise an error."""

    rows: list[TableRow] = field(default_factory=list)  # the committed rows
    fails: set[str] = field(default_factory=set)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    last_position: int = 0
    numbers: int = 0
    _written: list[TableRow] = field(default_factory=list)
    _marked: set[int] = field(default_factory=set)
    _moved: int | None = None

    def do(self, *call: object) -> None:
        """Record a call, and raise an error if the test has set one for it."""
        self.calls.append(call)
        if call[0] in self.fails:
            raise (CommitUnknown if call[0] == "commit" else DatabaseError)(f"{call[0]} was to fail")

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
        self.do("take-after-position")
        return [row for row in self.rows if row.number > self.last_position][:max_records]

    def mark(self, numbers: Sequence[int]) -> None:
        self.do("mark", *numbers)
        self._marked |= set(numbers)

    def move_position(self, number: int) -> None:
        self.do("move-position", number)
        self._moved = number

    def commit(self) -> None:
        self.do("commit")
        self.rows = [replace(row, done=row.done or row.number in self._marked) for row in self.rows]
        self.rows += self._written
        self.last_position = self.last_position if self._moved is None else self._moved
        self._written, self._marked, self._moved = [], set(), None

    def roll_back(self) -> None:
        self._written, self._marked, self._moved = [], set(), None

    def count_pending(self, within: Range | None = None) -> int:
        self.do("pending")
        return sum(not row.done for row in self.rows)

    def read_all(self) -> tuple[list[TableRow], int]:
        return self.rows, self.numbers + 1

    def close(self) -> None:
        self.calls.append(("close",))
