"""Makes the tables of `history/` from the journals.

It reads one journal after the other, line by line. Only the open operations and a chunk of each table are in memory. It
also works for a run that was killed: a torn last line is dropped and counted, and an operation without a completion is
`info`. Missing line numbers are counted, because they show that evidence is lost.

One line with the sends of a transaction, or with the records of a poll, leads to many rows. They are added as columns,
one line at a time. Final readers have already written columns (`harness.record.parts`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
from harness.record.journal import JournalContents, JournalLine, OpenOperation, read_events
from harness.record.naming import PartitionIds, operation_name, split_partition
from harness.record.parquet import ParquetWriter, open_parquet
from harness.record.parts import DamagedPart, parts_folder, read_part
from harness.record.schema import HISTORY


class Tabulator:
    """Writes the tables of `history/`. After that, `op_of` returns the number of an operation."""

    def __init__(self, run: int, stages: Sequence[StageSpec], names: PartitionIds) -> None:
        self.run = run
        self._stages = {stage.name: stage for stage in stages}
        self._names = names
        self._ops: dict[str, range] = {}
        self._next_op = 0
        self._tables: dict[str, ParquetWriter] = {}
        self._tps: dict[str, int] = {}  # by partition name: a cache of `tp`

    def op_of(self, name: str) -> int | None:
        """Return the number of an operation. The metadata of an offset commit contains its name.

        Return None if no journal has an operation of this name.
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
        contents = JournalContents(path.stem, self._next_op)
        for line in read_events(path, contents):
            if isinstance(line.event, PartWritten):
                self._part(contents, path, line.event)
            else:
                try:
                    self._event(contents, line)
                except (NotAnEvent, TypeError, ValueError, LookupError):  # no process writes such a line
                    contents.missing += 1
        for op in sorted(contents.open):
            self._complete(contents, op, None, None)
        self._next_op = contents.first_op + contents.highest + 1
        self._ops[contents.name] = range(contents.first_op, self._next_op)
        self._row(
            "journals",
            contents.name,
            contents.role,
            contents.stage,
            contents.head.pid if contents.head else None,
            contents.lines,
            contents.torn,
            contents.missing,
            contents.rows,
            contents.ended,
            contents.sends,
            contents.claims,
            contents.polls,
            contents.assignments,
        )

    def _event(self, contents: JournalContents, line: JournalLine) -> None:
        event = line.event
        match event:
            case JournalBegan():
                if (event.role == Role.WORKER.value) != (event.stage is not None) or (
                    event.stage is not None and event.stage not in self._stages
                ):
                    raise NotAnEvent(f"a {event.role} of stage {event.stage} has no journal")
                contents.head = event
            case JournalEnded():
                contents.ended = True
                contents.missing += max(0, event.ops - contents.highest - 1)
            case Assigned():
                self._assigned(contents, line.time_ns, event)
            case EndsRead():
                self._ends(contents, event)
            case Polled():
                self._poll(contents, line, event)
            case Invoked():
                if event.f not in KINDS:
                    raise NotAnEvent(f"no process makes an operation {event.f}")
                contents.open[event.op] = OpenOperation(event, line.time_ns, line.number)
                contents.highest = max(contents.highest, event.op)
            case EndInvoked():
                operation = contents.open.get(event.op)
                if operation is not None:
                    operation.acks = event.acks
                    if event.type == "commit":
                        operation.commit_ns = line.time_ns
            case Completed():
                self._complete(contents, event.op, event, line)

    def _complete(
        self, contents: JournalContents, op: int, completed: Completed | None, line: JournalLine | None
    ) -> None:
        """Add the rows of an operation, of its sends and of its claims."""
        operation = contents.open.pop(op, None)
        if operation is None:
            return  # its invocation is missing, and counts as a missing line
        invoked = operation.invoked
        group = self._group_of(contents)
        if invoked.f == "init":
            contents.transactional_id = invoked.transactional_id
        transactional = invoked.f in ("txn", "init")
        number = contents.first_op + op
        contents.rows += 1
        self._row(
            "ops",
            number,
            operation_name(contents.name, op),
            contents.name,
            invoked.process,
            self._stage_of(contents),
            group if invoked.claims else None,
            (invoked.transactional_id or contents.transactional_id) if transactional else None,
            invoked.f,
            (completed.type if completed else Outcome.INFO).value,
            invoked.asked,
            operation.call_ns,
            operation.commit_ns,
            line.time_ns if line else None,
            completed.error if completed else None,
            bool(completed and completed.fenced),
            operation.line,
            line.number if line else None,
            None,
        )
        acks = (completed and completed.acks) or operation.acks
        all_acked = len(acks) == len(invoked.sends) and None not in acks
        committed = completed is not None and completed.type is Outcome.OK and invoked.asked != "abort"
        if len(acks) > len(invoked.sends) or (committed and not all_acked):
            contents.missing += 1  # a transaction is ok only after all its records are acknowledged
        self._sends(contents, op, invoked.sends, acks)
        for key, (first, following) in (invoked.claims or {}).items():
            self._row("claims", number, group, self._tp(key), first, following)
            contents.claims += 1

    def _stage_of(self, contents: JournalContents) -> str | None:
        """Return the stage of a worker's journal; None: it is not a worker, or run.toml does not list its stage."""
        return contents.stage if contents.stage in self._stages else None

    def _group_of(self, contents: JournalContents) -> str | None:
        stage = self._stages.get(contents.stage or "")
        return stage.group if stage else None

    def _sends(
        self, contents: JournalContents, op: int, sends: Sequence[Sequence[Any]], acks: Sequence[Ack | None]
    ) -> None:
        count = len(sends)
        contents.sends += count
        received = [*acks[:count], *[None] * (count - len(acks))]
        # A negative partition means that the client refused the record and never sent it.
        received = [None if ack is None or ack[0] < 0 else ack for ack in received]
        name = operation_name(contents.name, op)
        self._rows(
            "sends",
            count,
            contents.first_op + op,
            list(range(count)),
            [f"{name}:{n}" for n in range(count)],  # as in `value_name`
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
        """Return the inputs of a send. The cells from the fourth on are a partition and an offset for each input."""
        if len(row) == 5:  # nearly all sends have one input
            return [(self._tp(row[3]), row[4])]
        return [(self._tp(key), offset) for key, offset in zip(row[3::2], row[4::2], strict=True)]

    def _poll(self, contents: JournalContents, line: JournalLine, event: Polled) -> None:
        op = event.op
        contents.highest = max(contents.highest, op)
        contents.rows += 1
        number = contents.first_op + op
        name = operation_name(contents.name, op)
        self._row(
            "ops", number, name, contents.name, event.process, self._stage_of(contents), None, None,
            "poll", Outcome.OK.value, None, event.call, None, line.time_ns, None, False, line.number, line.number,
            None if event.txn is None else contents.first_op + event.txn,
        )  # fmt: skip
        stage = self._stages.get(contents.stage or "")
        promised = stage.promised if stage else Isolation.READ_COMMITTED.value
        n = 0
        for key, records in (event.records or {}).items():
            count = len(records)
            self._rows(
                "polls", count, number, list(range(n, n + count)), self._tp(key),
                [record[0] for record in records], [record[1] for record in records],
                contents.role, promised, line.time_ns,
            )  # fmt: skip
            n += count
        contents.polls += n

    def _group(self, stage: str) -> str | None:
        """Return the group of a stage in a part file. Raises `UnreadableInput` if the run has no such stage."""
        if stage not in self._stages:
            raise UnreadableInput(f"a part file of a final reader has stage {stage}, but run.toml does not")
        return self._stages[stage].group

    def _part(self, contents: JournalContents, path: Path, event: PartWritten) -> None:
        """Add the rows of a part file. A missing or damaged file counts as a missing line."""
        shared_cells = {"run": self.run, "role": contents.role, "promised": Isolation.READ_COMMITTED.value}
        try:
            table, batch = read_part(parts_folder(path), event, contents.first_op, shared_cells, self._group)
        except (DamagedPart, TypeError, ValueError, LookupError):
            contents.missing += 1
        else:
            self._tables[table].write(batch)
            if table == "polls":
                contents.polls += batch.num_rows

    def _assigned(self, contents: JournalContents, time_ns: int, event: Assigned) -> None:
        group = self._group_of(contents)
        if event.gained and event.starts is None:
            raise NotAnEvent("an assignment does not have the start offsets of its partitions")
        starts = event.starts or [None] * len(event.partitions)
        for key, start in zip(event.partitions, starts, strict=True):
            self._row(
                "assignments",
                contents.name,
                event.process,
                group,
                time_ns,
                event.gained,
                self._tp(key),
                start,
            )
            contents.assignments += 1

    def _ends(self, contents: JournalContents, event: EndsRead) -> None:
        for key, end in event.ends.items():
            self._row(
                "ends", contents.name, event.isolation, self._tp(key),
                end.first, end.next, end.read, end.sentinel, contents.role, end.expected,
            )  # fmt: skip


def write_partitions(
    names: PartitionIds, run: int, folder: Path, compacted: Mapping[str, bool], known: Collection[str]
) -> None:
    """Write the table `partitions`.

    Args:
        names: The partitions of the plan, and all other partitions in tables of `history/` or `log/`.
        run: The number of the run.
        folder: The folder `history` of the run.
        compacted: For each topic, whether it is compacted.
        known: The topics and tables of the pipeline. All other topics are internal.
    """
    with open_parquet(folder / "partitions.parquet", HISTORY["partitions"]) as table:
        for tp, topic, partition in names:
            table.append((run, tp, topic, partition, topic not in known, compacted.get(topic, False)))
