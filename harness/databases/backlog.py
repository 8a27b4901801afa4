"""Count the rows that a run still has to process in its tables of inputs."""

from collections.abc import Callable, Mapping

from harness.databases.interface import DatabaseError, InputTable, Range

Backlog = Callable[[str, Range | None], int | None]
"""Counts the visible rows of a table that are not done, within a range of numbers. None: the count is not known now."""


def no_backlog(table: str, within: Range | None) -> int:
    """Return 0: the `Backlog` of a pipeline that reads no table."""
    return 0


class DatabaseBacklog:
    """A `Backlog` that counts rows of tables. `tables` is by name of the table."""

    def __init__(self, tables: Mapping[str, InputTable]) -> None:
        self._tables = tables

    def __call__(self, table: str, within: Range | None) -> int | None:
        try:
            return self._tables[table].count_pending(within)
        except DatabaseError:
            return None

    def close(self) -> None:
        for inputs in self._tables.values():
            inputs.close()
