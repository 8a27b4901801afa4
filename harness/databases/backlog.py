"""What is left to do in the tables of inputs of a run: asked by the run itself, while it goes on and at its end."""

from collections.abc import Callable, Mapping

from harness.databases.interface import DatabaseError, InputTable, Range

Backlog = Callable[[str, Range | None], int | None]
"""By a table and a range of its rows, how many are visible there that nobody has done; None: nobody can say now."""


def no_backlog(table: str, within: Range | None) -> int:
    """The `Backlog` of a pipeline that reads no table."""
    return 0


class DatabaseBacklog:
    """A `Backlog` of tables that are open here."""

    def __init__(self, tables: Mapping[str, InputTable]) -> None:
        self._tables = tables

    def __call__(self, table: str, within: Range | None) -> int | None:
        """How many rows are left."""
        try:
            return self._tables[table].count_pending(within)
        except DatabaseError:
            return None

    def close(self) -> None:
        """Be done with the tables."""
        for inputs in self._tables.values():
            inputs.close()
