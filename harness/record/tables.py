"""Makes the tables of `history/` from the journals.

It reads one journal after the other, line by line. In memory are only the open operations and a chunk of each table. It
also works for a run that was killed: a torn last line is dropped and counted, and an operation without a completion is
`info`. Gaps in the numbering of lines are counted, because there evidence is lost.

Most rows come from few lines: the sends of a transaction, and the records of a poll. They are added as columns, one
line at a time. Final readers have already written columns (`harness.record.parts`).
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.common.errors import UnreadableInput
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Isolation, Outcome, Role
from harness.record.events import (
    KINDS,
    Ack,
    Assigned,
    Completed,
    EndInvoked,
    EndsRead,
    Invoked,
    JournalBegan,
    JournalEnded,
    NotAnEvent,
    PartWritten,
    Polled,
)
from harness.record.journal_lines import JournalContents, JournalLine, OpenOperation, read_events
from harness.record.naming import operation_name, split_partition
from harness.record.parquet_writer import ParquetWriter, open_parquet
from harness.record.partitions import PartitionIds
from harness.record.parts import DamagedPart, parts_folder, read_part
from harness.record.schema import HISTORY


class Tabulator:
    """Writes the tables of `history/`. Afterwards, `op_of` finds operations by name."""

    def __init__(self, run: int, stages: Sequence[StageSpec], names: PartitionIds) -> None:
        self.run = run
        self._stages = {stage.name: stage for stage in stages}
        self._names = names
        self._ops: dict[str, range] = {}
        self._next_op = 0
        self._tables: dict[str, ParquetWriter] = {}
        self._tps: dict[str, int] = {}  # by partition name: a cache of `tp`

    def op_of(self, name: str) -> int | None:
        """Return the number of the operation that the metadata of an offset names.

        Return None if it names no operation, or one that is missing in its journal.
        """
        journal, _, number = name.rpartition(":")
        ops = self._ops.get(journal, range(0))
        return ops[int(number)] if number.isdecimal() and int(number) < len(ops) else None

    def write(self, journals: Iterable[Path], folder: Path) -> None:
        """Read the journals in this order, and write all tables except `partitions`, which is written after `log/`."""
        folder.mkdir(exist_ok=True)
        with ExitStack() as stack:
            for table, schema in HISTORY.items():
                if table != "partitions":
                    path = folder / f"{table}.parquet"
                    self._tables[table] = stack.enter_context(open_parquet(path, schema))
            for stage in self._stages.values():
                for topic in stage.reads:
                    self._row(
                        "stages", stage.name, stage.group, topic, stage.promised, stage.ordered,
                        stage.positions, stage.guarantee, stage.journaled,
                    )  # fmt: skip
            for path in journals:
                self._journal(path)

    def _row(self, table: str, *cells: object) -> None:
        self._tables[table].append((self.run, *cells))

    def _rows(self, table: str, count: int, *columns: object) -> None:
        self._tables[table].extend(count, self.run, *columns)

    def _tp(self, key: str) -> int:
        tp = self._tps.get(key)
        if tp is None:
            tp = self._tps[key] = self._names.id(*split_partition(key))
        return tp

    def _journal(self, path: Path) -> None:
        read = JournalContents(path.stem, self._next_op)
        for line in read_events(path, read):
            if isinstance(line.event, PartWritten):
                self._part(read, path, line.event)
            else:
                try:
                    self._event(read, line)
                except (NotAnEvent, TypeError, ValueError, LookupError):  # no process writes such a line
                    read.missing += 1
        for op in sorted(read.open):
            self._complete(read, op, None, None)
        self._next_op = read.first_op + read.highest + 1
        self._ops[read.name] = range(read.first_op, self._next_op)
        self._row(
            "journals",
            read.name,
            read.role,
            read.stage,
            read.head.pid if read.head else None,
            read.lines,
            read.torn,
            read.missing,
            read.rows,
            read.ended,
            read.sends,
            read.claims,
        )

    def _event(self, read: JournalContents, line: JournalLine) -> None:
        event = line.event
        match event:
            case JournalBegan():
                if (event.role == Role.WORKER.value) != (event.stage is not None) or (
                    event.stage is not None and event.stage not in self._stages
                ):
                    raise NotAnEvent(f"a {event.role} of stage {event.stage} has no journal")
                read.head = event
            case JournalEnded():
                read.ended = True
                read.missing += max(0, event.ops - read.highest - 1)
            case Assigned():
                self._assigned(read, line.time_ns, event)
            case EndsRead():
                self._ends(read, event)
            case Polled():
                self._poll(read, line, event)
            case Invoked():
                if event.f not in KINDS:
                    raise NotAnEvent(f"no process makes an operation {event.f}")
                read.open[event.op] = OpenOperation(event, line.time_ns, line.number)
                read.highest = max(read.highest, event.op)
            case EndInvoked():
                operation = read.open.get(event.op)
                if operation is not None:
                    operation.acks = event.acks
                    if event.type == "commit":
                        operation.commit_ns = line.time_ns
            case Completed():
                self._complete(read, event.op, event, line)

    def _complete(
        self, read: JournalContents, op: int, done: Completed | None, line: JournalLine | None
    ) -> None:
        """Add the rows of an operation, of its sends and of its claims."""
        operation = read.open.pop(op, None)
        if operation is None:
            return  # its invocation is among the missing lines
        invoked = operation.invoked
        group = self._group_of(read)
        if invoked.f == "init":
            read.transactional_id = invoked.transactional_id
        transactional = invoked.f in ("txn", "init")
        number = read.first_op + op
        read.rows += 1
        self._row(
            "ops",
            number,
            operation_name(read.name, op),
            read.name,
            invoked.process,
            self._stage_of(read),
            group if invoked.claims else None,
            (invoked.transactional_id or read.transactional_id) if transactional else None,
            invoked.f,
            (done.type if done else Outcome.INFO).value,
            invoked.asked,
            operation.call_ns,
            operation.commit_ns,
            line.time_ns if line else None,
            done.error if done else None,
            bool(done and done.fenced),
            operation.line,
            line.number if line else None,
            None,
        )
        acks = (done and done.acks) or operation.acks
        all_acked = len(acks) == len(invoked.sends) and None not in acks
        committed = done is not None and done.type is Outcome.OK and invoked.asked != "abort"
        if len(acks) > len(invoked.sends) or (committed and not all_acked):
            read.missing += 1  # a transaction is ok only after all its records are acknowledged
        self._sends(read, op, invoked.sends, acks)
        for key, (first, following) in (invoked.claims or {}).items():
            self._row("claims", number, group, self._tp(key), first, following)
            read.claims += 1

    def _stage_of(self, read: JournalContents) -> str | None:
        """Return the stage of a worker's journal; None: it is not a worker, or run.toml does not list its stage."""
        return read.stage if read.stage in self._stages else None

    def _group_of(self, read: JournalContents) -> str | None:
        stage = self._stages.get(read.stage or "")
        return stage.group if stage else None

    def _sends(
        self, read: JournalContents, op: int, sends: Sequence[Sequence[Any]], acks: Sequence[Ack | None]
    ) -> None:
        count = len(sends)
        read.sends += count
        received = [*acks[:count], *[None] * (count - len(acks))]
        # A negative partition means that the client refused the record and never sent it.
        received = [None if ack is None or ack[0] < 0 else ack for ack in received]
        name = operation_name(read.name, op)
        self._rows(
            "sends",
            count,
            read.first_op + op,
            list(range(count)),
            [f"{name}:{n}" for n in range(count)],  # the same as `value_name`
            [send[0] for send in sends],
            [
                self._names.id(send[0], ack[0]) if ack else None
                for send, ack in zip(sends, received, strict=True)
            ],
            [ack[1] if ack else None for ack in received],
            [ack is not None for ack in received],
            [send[1] for send in sends],
            [self._inputs(send) for send in sends],
            [send[2] for send in sends],
        )

    def _inputs(self, row: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the inputs of a send: from its fourth cell on, a partition and an offset for each input."""
        if len(row) == 5:  # nearly all sends have one input
            return [(self._tp(row[3]), row[4])]
        return [(self._tp(key), offset) for key, offset in zip(row[3::2], row[4::2], strict=True)]

    def _poll(self, read: JournalContents, line: JournalLine, event: Polled) -> None:
        op = event.op
        read.highest = max(read.highest, op)
        read.rows += 1
        number = read.first_op + op
        name = operation_name(read.name, op)
        self._row(
            "ops", number, name, read.name, event.process, self._stage_of(read), None, None,
            "poll", Outcome.OK.value, None, event.call, None, line.time_ns, None, False, line.number, line.number,
            None if event.txn is None else read.first_op + event.txn,
        )  # fmt: skip
        stage = self._stages.get(read.stage or "")
        promised = stage.promised if stage else Isolation.READ_COMMITTED.value
        n = 0
        for key, records in (event.records or {}).items():
            count = len(records)
            self._rows(
                "polls", count, number, list(range(n, n + count)), self._tp(key),
                [record[0] for record in records], [record[1] for record in records],
                read.role, promised, line.time_ns,
            )  # fmt: skip
            n += count

    def _group(self, stage: str) -> str | None:
        """Return the group of a stage that a final reader names. Raises `UnreadableInput`."""
        if stage not in self._stages:
            raise UnreadableInput(f"a final reader names stage {stage}, which run.toml does not list")
        return self._stages[stage].group

    def _part(self, read: JournalContents, path: Path, event: PartWritten) -> None:
        """Add the rows of a part file. A missing or damaged one counts as a missing line."""
        same = {"run": self.run, "role": read.role, "promised": Isolation.READ_COMMITTED.value}
        try:
            table, batch = read_part(parts_folder(path), event, read.first_op, same, self._group)
        except (DamagedPart, TypeError, ValueError, LookupError):
            read.missing += 1
        else:
            self._tables[table].write(batch)

    def _assigned(self, read: JournalContents, time_ns: int, event: Assigned) -> None:
        group = self._group_of(read)
        if event.gained and event.starts is None:
            raise NotAnEvent("an assignment does not have the positions that the partitions are read from")
        starts = event.starts or [None] * len(event.partitions)
        for key, start in zip(event.partitions, starts, strict=True):
            self._row(
                "assignments", read.name, event.process, group, time_ns, event.gained, self._tp(key), start
            )

    def _ends(self, read: JournalContents, event: EndsRead) -> None:
        for key, end in event.ends.items():
            self._row(
                "ends", read.name, event.isolation, self._tp(key),
                end.first, end.next, end.read, end.sentinel, read.role, end.expected,
            )  # fmt: skip
