"""From journals to tables: what each process had said, as rows.

Reads one journal after the other, line by line, and holds only the operations that are open, and a chunk of
each table. What a killed process had said is there: its last, torn line is dropped and counted, an operation
without a completion is `info`. Gaps in the numbering of the lines are counted too: there evidence
is gone. It works the same for a run that ended and for one that was killed.

Most rows come from a few lines: a transaction's sends, a poll's records. They are collected as columns, a line at
a time. Final readers have written columns already (`parts`), which are renumbered; those of earlier versions
wrote lines, like everybody else.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.errors import UnreadableInput
from harness.history import SENTINEL_VALUE, Isolation, Outcome
from harness.pipeline import StageFacts
from harness.record.garbage import seldom_collected
from harness.record.journal_lines import Journaled, events
from harness.record.naming import operation_name, split_partition
from harness.record.parquet_writer import ParquetWriter, open_parquet
from harness.record.partitions import PartitionIds
from harness.record.parts import DamagedPart, Numbers, folder_of, read_part
from harness.record.schema import HISTORY

INTERNAL = ("__consumer_offsets", "__transaction_state")


class Tabulator:
    """Writes the tables of `history/`, and can then say which operation a name means."""

    def __init__(self, run: int, stages: Sequence[StageFacts], names: PartitionIds) -> None:
        self.run = run
        self._stages = {stage.name: stage for stage in stages}
        self._names = names
        self._ops: dict[str, range] = {}
        self._next_op = 0
        self._sheets: dict[str, ParquetWriter] = {}
        self._tps: dict[str, int] = {}  # of partitions that were named before

    def op_of(self, name: str) -> int | None:
        """The number of the operation that an offset's metadata names; None: nobody's, or one that is missing
        in its journal.
        """
        journal, _, number = name.rpartition(":")
        ops = self._ops.get(journal, range(0))
        return ops[int(number)] if number.isdecimal() and int(number) < len(ops) else None

    def write(self, journals: Sequence[Path], folder: Path) -> None:
        """Read the journals and write every table but `partitions`, which comes last."""
        folder.mkdir(exist_ok=True)
        with seldom_collected(), ExitStack() as stack:
            for table, schema in HISTORY.items():
                if table != "partitions":
                    path = folder / f"{table}.parquet"
                    self._sheets[table] = stack.enter_context(open_parquet(path, schema))
            for stage in self._stages.values():
                for topic in stage.reads:
                    self._row("stages", stage.name, stage.group, topic, stage.promised, stage.ordered)
            for path in sorted(journals):
                self._journal(path)

    def write_partitions(self, folder: Path, compacted: Mapping[str, bool]) -> None:
        """Write the names of all partitions that any table has, `log/` included. `compacted`: by topic."""
        with open_parquet(folder / "partitions.parquet", HISTORY["partitions"]) as sheet:
            for tp, topic, partition in self._names:
                sheet.append((self.run, tp, topic, partition, topic in INTERNAL, compacted.get(topic, False)))

    def _row(self, table: str, *cells: object) -> None:
        self._sheets[table].append((self.run, *cells))

    def _rows(self, table: str, count: int, *columns: object) -> None:
        self._sheets[table].extend(count, self.run, *columns)

    def _tp(self, key: str) -> int:
        tp = self._tps.get(key)
        if tp is None:
            tp = self._tps[key] = self._names.id(*split_partition(key))
        return tp

    def _journal(self, path: Path) -> None:
        read = Journaled(path.stem, self._next_op)
        for line, event in events(path, read):
            if event["type"] == "part":
                self._part(read, path, event)
            else:
                self._event(read, line, event)
        for op in sorted(read.open):
            self._complete(read, op, Outcome.INFO.value, None, None)
        self._next_op = read.first_op + read.highest + 1
        self._ops[read.name] = range(read.first_op, self._next_op)
        self._row(
            "journals",
            read.name,
            read.role,
            read.head.get("stage"),
            read.head.get("pid"),
            read.lines,
            read.torn,
            read.missing,
            read.rows,
            read.ended,
        )

    def _event(self, read: Journaled, line: int, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "begin":
            read.head = event
        elif kind == "end":
            read.ended = True
            read.missing += max(0, event["ops"] - read.highest - 1)
        elif kind == "assign":
            self._assigned(read, event)
        elif kind == "ends":
            self._ends(read, event)
        elif event.get("f") == "poll":
            self._poll(read, line, event)
        elif kind == "invoke":
            read.open[event["op"]] = event | {"line": line}
            read.highest = max(read.highest, event["op"])
        elif kind in ("commit", "abort"):
            begun = read.open.get(event["op"])
            if begun is not None:
                begun["acks"] = event["acks"]
                if kind == "commit":
                    begun["commit_ns"] = event["time"]
        elif kind in {outcome.value for outcome in Outcome}:
            self._complete(read, event["op"], kind, event, line)

    def _complete(
        self, read: Journaled, op: int, outcome: str, event: Mapping[str, Any] | None, line: int | None
    ) -> None:
        """One operation, with its sends and its claims."""
        begun = read.open.pop(op, None)
        if begun is None:
            return  # its invocation is among the missing lines
        done = event or {}
        stage = self._stages.get(read.head.get("stage", ""))
        if begun["f"] == "init":
            read.transactional_id = begun["transactional_id"]
        transactional = begun["f"] in ("txn", "init")
        claims = begun.get("claims")
        number = read.first_op + op
        read.rows += 1
        self._row(
            "ops",
            number,
            operation_name(read.name, op),
            read.name,
            begun["process"],
            stage.name if stage else None,
            stage.group if stage and claims else None,
            begun.get("transactional_id", read.transactional_id) if transactional else None,
            begun["f"],
            outcome,
            begun.get("asked"),
            begun["time"],
            begun.get("commit_ns"),
            done.get("time"),
            done.get("error"),
            bool(done.get("fenced")),
            begun["line"],
            line,
        )
        acks = done.get("acks") or begun.get("acks") or []
        self._sends(read, op, begun.get("sends", ()), acks)
        for key, (first, following) in (claims or {}).items():
            self._row("claims", number, stage.group if stage else None, self._tp(key), first, following)

    def _sends(
        self, read: Journaled, op: int, sends: Sequence[Sequence[Any]], acks: Sequence[Sequence[int] | None]
    ) -> None:
        count = len(sends)
        answers = [*acks[:count], *[None] * (count - len(acks))]
        name = operation_name(read.name, op)
        self._rows(
            "sends",
            count,
            read.first_op + op,
            list(range(count)),
            [f"{name}:{n}" for n in range(count)],  # as `value_name` has it
            [send[0] for send in sends],
            [
                self._names.id(send[0], ack[0]) if ack else None
                for send, ack in zip(sends, answers, strict=True)
            ],
            # A duplicate of a batch that the broker has forgotten is acknowledged without an offset.
            [ack[1] if ack and ack[1] >= 0 else None for ack in answers],
            [ack is not None for ack in answers],
            [send[1] for send in sends],
            [self._inputs(send) for send in sends],
            [send[2] for send in sends],
        )

    def _inputs(self, row: Sequence[Any], start: int = 3) -> list[tuple[int, int]]:
        """The inputs that a row names from a certain cell on: a partition and an offset for each."""
        if len(row) == start + 2:  # nearly all
            return [(self._tp(row[start]), row[start + 1])]
        return [
            (self._tp(key), offset) for key, offset in zip(row[start::2], row[start + 1 :: 2], strict=True)
        ]

    def _poll(self, read: Journaled, line: int, event: Mapping[str, Any]) -> None:
        op = event["op"]
        read.highest = max(read.highest, op)
        read.rows += 1
        number = read.first_op + op
        stage = self._stages.get(read.head.get("stage", ""))
        name = operation_name(read.name, op)
        call_ns, return_ns = event["call"], event["time"]
        self._row(
            "ops", number, name, read.name, event["process"], stage.name if stage else None, None, None,
            "poll", Outcome.OK.value, None, call_ns, None, return_ns, None, False, line, line,
        )  # fmt: skip
        promised = stage.promised if stage else Isolation.READ_COMMITTED.value
        n = 0
        for key, records in event.get("records", {}).items():
            count = len(records)
            self._rows(
                "polls", count, number, list(range(n, n + count)), self._tp(key),
                [record[0] for record in records], [record[1] for record in records],
                read.role, promised, return_ns,
            )  # fmt: skip
            n += count
        for key, contents in event.get("contents", {}).items():
            names = event.get("keys", {}).get(key, ())  # journals of earlier versions have none
            self._contents(self._tp(key), contents, names, event.get("states", {}).get(key, ()))
        for key, rows in event.get("expected", {}).items():
            tp = self._tp(key)
            for offset, named, slot, topic, digest in rows:
                self._row("expected", named, self._group(named), tp, offset, slot, topic, digest, None, None)
        for key, rows in event.get("adds", {}).items():
            tp = self._tp(key)
            for offset, named, topic, to, adds in rows:
                self._row("expected", named, self._group(named), tp, offset, None, topic, None, to, adds)

    def _group(self, stage: str) -> str | None:
        """The group of a stage that a final reader names. Raises `UnreadableInput`."""
        if stage not in self._stages:
            raise UnreadableInput(f"a final reader names stage {stage}, which test.toml does not list")
        return self._stages[stage].group

    def _contents(
        self,
        tp: int,
        contents: Sequence[Sequence[Any]],
        keys: Sequence[str | None],
        states: Sequence[int | None],
    ) -> None:
        """What a final reader of an earlier version wrote of the records of a partition."""
        count = len(contents)
        values = [row[1] for row in contents]
        self._rows(
            "records",
            count,
            tp,
            [row[0] for row in contents],
            values,
            [row[2] for row in contents],
            [self._inputs(row, 5) for row in contents],
            [row[3] for row in contents],
            [row[4] for row in contents],
            [value is not None and value.startswith(SENTINEL_VALUE) for value in values],
            [*keys, *[None] * (count - len(keys))],
            [*states, *[None] * (count - len(states))],
        )

    def _part(self, read: Journaled, path: Path, event: Mapping[str, Any]) -> None:
        """The rows of a part; one that is gone or damaged counts as a line that is."""
        numbers = Numbers(self.run, read.first_op, read.role, self._tp, self._group)
        try:
            table, batch = read_part(folder_of(path), event, numbers)
        except DamagedPart:
            read.missing += 1
        else:
            self._sheets[table].write(batch)

    def _assigned(self, read: Journaled, event: Mapping[str, Any]) -> None:
        stage = self._stages.get(read.head.get("stage", ""))
        group = stage.group if stage else None
        starts = event.get("starts") or [None] * len(event["partitions"])  # earlier versions have none
        for key, start in zip(event["partitions"], starts, strict=True):
            gained, tp = event["gained"], self._tp(key)
            self._row("assignments", read.name, event["process"], group, event["time"], gained, tp, start)

    def _ends(self, read: Journaled, event: Mapping[str, Any]) -> None:
        for key, end in event["ends"].items():
            self._row(
                "ends", read.name, event["isolation"], self._tp(key),
                end["first"], end["next"], end["read"], end["sentinel"], read.role,
            )  # fmt: skip
