"""From journals to tables: what each process had said, as rows.

Reads one journal after the other, line by line, and holds only the operations that are open. What
a killed process had said is there: its last, torn line is dropped and counted, an operation
without a completion is `info`. Gaps in the numbering of the lines are counted too: there evidence
is gone. It works the same for a run that ended and for one that was killed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from harness.history import SENTINEL_VALUE, Isolation, Outcome
from harness.pipeline import StageFacts
from harness.record.naming import operation_name, split_partition, value_name
from harness.record.parquet_writer import ParquetWriter, open_parquet
from harness.record.partitions import PartitionIds
from harness.record.schema import HISTORY

INTERNAL = ("__consumer_offsets", "__transaction_state")


@dataclass
class Journaled:
    """What has been read of one journal."""

    name: str
    first_op: int
    head: dict[str, Any] = field(default_factory=dict)
    lines: int = 0
    torn: int = 0
    missing: int = 0
    rows: int = 0  # of the table ops
    highest: int = -1
    ended: bool = False
    transactional_id: str | None = None
    open: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """What it was there for; a journal whose first line is torn is nobody's."""
        return str(self.head.get("role", "unknown"))


class Tabulator:
    """Writes the tables of `history/`, and can then say which operation a name means."""

    def __init__(self, run: int, stages: Sequence[StageFacts], names: PartitionIds) -> None:
        self.run = run
        self._stages = {stage.name: stage for stage in stages}
        self._names = names
        self._ops: dict[str, range] = {}
        self._next_op = 0
        self._sheets: dict[str, ParquetWriter] = {}

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
        with ExitStack() as stack:
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

    def _tp(self, key: str) -> int:
        return self._names.id(*split_partition(key))

    def _journal(self, path: Path) -> None:
        read = Journaled(path.stem, self._next_op)
        for line, event in events(path, read):
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
        for n, send in enumerate(begun.get("sends", ())):
            self._send(read, op, n, send, acks[n] if n < len(acks) else None)
        for key, (first, following) in (claims or {}).items():
            self._row("claims", number, stage.group if stage else None, self._tp(key), first, following)

    def _send(self, read: Journaled, op: int, n: int, send: Sequence[Any], ack: Sequence[int] | None) -> None:
        topic, slot, digest, *places = send
        # A duplicate of a batch that the broker has forgotten is acknowledged without an offset.
        offset = ack[1] if ack and ack[1] >= 0 else None
        self._row(
            "sends",
            read.first_op + op,
            n,
            value_name(read.name, op, n),
            topic,
            self._names.id(topic, ack[0]) if ack else None,
            offset,
            ack is not None,
            slot,
            self._inputs(places),
            digest,
        )

    def _inputs(self, places: Sequence[Any]) -> list[dict[str, int]]:
        return [
            {"tp": self._tp(key), "offset": offset}
            for key, offset in zip(places[::2], places[1::2], strict=True)
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
            tp = self._tp(key)
            for offset, value in records:
                self._row("polls", number, n, tp, offset, value, read.role, promised, return_ns)
                n += 1
        for key, contents in event.get("contents", {}).items():
            names = event.get("keys", {}).get(key, ())  # journals of earlier versions have none
            self._contents(self._tp(key), contents, names, event.get("states", {}).get(key, ()))
        for key, rows in event.get("expected", {}).items():
            tp = self._tp(key)
            for offset, named, slot, topic, digest in rows:
                group = self._stages[named].group
                self._row("expected", named, group, tp, offset, slot, topic, digest, None, None)
        for key, rows in event.get("adds", {}).items():
            tp = self._tp(key)
            for offset, named, topic, to, adds in rows:
                group = self._stages[named].group
                self._row("expected", named, group, tp, offset, None, topic, None, to, adds)

    def _contents(
        self,
        tp: int,
        contents: Sequence[Sequence[Any]],
        keys: Sequence[str | None],
        states: Sequence[int | None],
    ) -> None:
        for n, (offset, value, slot, digest, timestamp_ms, *places) in enumerate(contents):
            sentinel = value is not None and value.startswith(SENTINEL_VALUE)
            key = keys[n] if n < len(keys) else None
            state = states[n] if n < len(states) else None
            inputs = self._inputs(places)
            self._row("records", tp, offset, value, slot, inputs, digest, timestamp_ms, sentinel, key, state)

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


def events(path: Path, read: Journaled) -> Iterator[tuple[int, dict[str, Any]]]:
    """The whole lines of a journal, numbered from 1; counts those that are torn or missing."""
    index = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            read.lines = number
            if not line.endswith(b"\n"):
                read.torn += 1
                return
            try:
                event = orjson.loads(line)
                found = int(event["index"])
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                read.missing += 1
                index += 1
                continue
            read.missing += max(0, found - index)
            index = found + 1
            yield number, event
