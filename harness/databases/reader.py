"""The final reader of a database. After the run, it reads every table and writes the rows as columns.

For the checkers a table is a topic with one partition, in which every record is committed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from harness.databases.interface import Database, InputTable, KeyState, SideEffect, TableRow
from harness.model.expectation import Expectation, InputRecord
from harness.model.vocabulary import Isolation
from harness.processes.messages import Report
from harness.record.events import EndsRead, Polled, ReadEnd
from harness.record.journal import Journal
from harness.record.naming import PartitionIds, digest, key_name, output_headers, parse_sources, partition_key
from harness.record.parts import PartWriter, expected_output_row, numbered
from harness.roles.control import Control


class DatabaseReader:
    """Reads the tables of a database.

    Args:
        partitions: The numbers of the run's partitions.
        parts: Writes the columns.
        expect: The expected outputs.
        sum_tables: The tables whose rows have a sum for `expect.held_sum`.
        inputs: By name, the tables whose rows are inputs.
    """

    def __init__(
        self,
        database: Database,
        tables: Sequence[str],
        partitions: PartitionIds,
        journal: Journal,
        parts: PartWriter,
        control: Control,
        expect: Expectation,
        sum_tables: Collection[str],
        inputs: Mapping[str, InputTable] | None = None,
    ) -> None:
        self._database = database
        self._inputs = inputs or {}
        self._tables = tables
        self._partitions = partitions
        self._journal = journal
        self._parts = parts
        self._control = control
        self._expect = expect
        self._sum_tables = frozenset(sum_tables)

    def run(self) -> None:
        """Read every table, and record how many rows each has."""
        self._control.report(Report(ready=True))
        ends = {partition_key(table, 0): self._read(table) for table in self._tables}
        self._parts.finish()
        # A database has no aborted rows, so both levels read the same rows. One level records expected outputs.
        for level in Isolation:
            level_ends = ends if level is Isolation.READ_UNCOMMITTED else _without_expected(ends)
            self._journal.write(EndsRead(level.value, level_ends))
        self._control.report(Report(reached=len(ends)))
        self._database.close()

    def _read(self, table: str) -> ReadEnd:
        tp = self._partitions.planned(table, 0)
        call_ns = self._journal.now_ns()
        rows: list[tuple[object, ...]] = [
            (tp, number, *self._effect(effect)) for number, effect in self._database.effects(table)
        ]
        rows += [
            (tp, number, *self._state(table, number, state)) for number, state in self._database.states(table)
        ]
        end = len(rows)
        expected = 0
        if table in self._inputs:
            inputs, end = self._inputs[table].read_all()
            expected = sum(self._write_expected(table, tp, row) for row in inputs)
            rows = [(tp, row.number, *self._input(row)) for row in inputs]
        op, count = self._journal.number(), len(rows)
        return_ns = self._journal.write(Polled(0, op, call_ns))
        if rows:
            columns = list(map(list, zip(*rows, strict=True)))
            self._parts.extend("records", count, *columns)
            tps, offsets, values = columns[:3]
            self._parts.extend("polls", count, op, list(range(count)), tps, offsets, values, return_ns)
        self._control.report(Report(records_read=count))
        # A table has no sentinel, because its end is known. Record its end as a sentinel after the last row.
        return ReadEnd(0, end + 1, count, end, expected)

    def _write_expected(self, table: str, tp: int, row: TableRow) -> int:
        """Write the expected outputs of an input, and return how many there are. A row that is not done has none."""
        if not row.done:
            return 0
        record = InputRecord(table, row.key, row.content, 0, row.number)
        expected = [
            expected_output_row(due, tp, 0, row.number) for due in self._expect.expected_outputs(record)
        ]
        if expected:
            self._parts.extend("expected", len(expected), *map(list, zip(*numbered(expected), strict=True)))
        return len(expected)

    def _input(self, row: TableRow) -> tuple[object, ...]:
        crc = digest(row.key, row.content, ())
        return (row.value, None, (), crc, None, False, key_name(row.key), None, None, None, None)

    def _effect(self, effect: SideEffect) -> tuple[object, ...]:
        """Return a row of the table `records`, from the third column on."""
        sources = parse_sources(effect.sources)
        headers = output_headers(effect.value, effect.output_name, sources)
        inputs = [(self._partitions.planned(topic, number), offset) for topic, number, offset in sources]
        crc = digest(effect.key, effect.content, headers)
        name, key = effect.output_name, key_name(effect.key)
        return (effect.value, name, inputs, crc, None, False, key, None, None, None, None)

    def _state(self, table: str, number: int, state: KeyState) -> tuple[object, ...]:
        crc = digest(state.key, state.content, ())
        held_sum = None
        if table in self._sum_tables:
            held_sum = self._expect.held_sum(InputRecord(table, state.key, b"%d" % state.changes, 0, number))
        return (None, None, (), crc, None, False, key_name(state.key), held_sum, None, None, None)


def _without_expected(ends: Mapping[str, ReadEnd]) -> dict[str, ReadEnd]:
    return {topic_partition: replace(end, expected=None) for topic_partition, end in ends.items()}
