"""Tiny histories, each a run: what a real store would hold, in a few letters.

A history has an input topic `a`, output topics `x` and `y`, one partition each, one stage `s` of group
`g`, which owes each input one output in `x`. The log is an append-only list for each partition; fates,
final reads, ends and replicas follow from it, as they would from real brokers (`stored_tables`). `alter` then
bends a table, as a fault would.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.model.promises import Promises
from harness.model.vocabulary import Premise
from harness.record.schema import HISTORY, LOG
from tests.support.stored_tables import OFFSETS, RC, Row, make_tables

TRANSACTIONS = "__transaction_state"
WALL_MS = 1_000_000.0


@dataclass
class Op:
    """An operation of a history, to refer to."""

    op: int
    name: str
    values: list[str] = field(default_factory=list)
    polled: int = 0


class History:
    """One run in the making."""

    def __init__(
        self,
        *,
        inputs: str = "a",
        outputs: str = "xy",
        expects: str = "x",
        log: bool = True,
        ordered: bool = False,
    ) -> None:
        self.log = log
        self.ordered = ordered
        self.expects = expects
        self.topics = [*inputs, *outputs, OFFSETS, TRANSACTIONS]
        self.tp = {topic: number for number, topic in enumerate(self.topics)}
        self.homes: dict[str, tuple[str, int]] = {}  # letters that are partitions of one topic
        self.inputs = inputs
        self.entries: dict[str, list[Row]] = {topic: [] for topic in self.topics}
        self.rows: dict[str, list[Row]] = {table: [] for table in (*HISTORY, *LOG)}
        self.journals: dict[str, Row] = {}
        self.clock = 0
        self.alterations: list[tuple[str, Callable[[Row], Row | None]]] = []
        self.revisions: list[Callable[[Row], Row | None]] = []
        self.incomplete: tuple[str, ...] = ()
        self.allowed: frozenset[str] = frozenset()
        self.permitted: frozenset[str] = frozenset()  # by the guarantee of the stage that did it
        self.had_log = log  # the brokers' logs were read; they may be gone all the same
        self.promises: Promises | None = None
        self.wall_ms: float | None = WALL_MS
        self.clock_drift_ms: float | None = 0.0
        self.followers = 0  # how many other brokers hold the same
        self.healed_ns: int | None = None
        self.session_ms: int | None = None
        self.broken_premises: frozenset[Premise] = frozenset()
        self.drained = False  # the run says that every stage had taken all of its inputs

    # what happens, in the order in which it happens

    def tick(self) -> int:
        self.clock += 1_000_000
        return self.clock

    def put(self, topic: str, value: str | None, pid: int = -1, epoch: int = 0, **more: Any) -> int:
        """Append a record; its offset. `seq`: its sequence number, if it is not the next one."""
        there = self.entries[topic]
        own = [entry for entry in there if (entry["pid"], entry["epoch"]) == (pid, epoch) and "seq" in entry]
        seq = (own[-1]["seq"] + 1) % 2**31 if own else 0
        there.append({"value": value, "pid": pid, "epoch": epoch, "ms": self._ms(), "seq": seq} | more)
        return len(there) - 1

    def mark(self, topic: str, pid: int, marker: str, epoch: int = 0, ms: int | None = None) -> int:
        """Append a marker; its offset."""
        entry = {"marker": marker, "pid": pid, "epoch": epoch, "ms": self._ms() if ms is None else ms}
        self.entries[topic].append(entry)
        return len(self.entries[topic]) - 1

    def op(self, journal: str = "w", f: str = "txn", outcome: str = "ok", **more: Any) -> Op:
        """An operation; a new journal is a worker's unless it is `f` (feeder) or `o` (observer)."""
        role = {"f": "feeder", "o": "observer", "z": "final"}.get(journal[0], "worker")
        row = self.journals.setdefault(journal, {"journal": journal, "role": role, "ops": 0})
        number = len(self.rows["ops"])
        name = f"{journal}:{row['ops']}"
        row["ops"] += 1
        transactional = f in ("txn", "init") and role == "worker"
        defaults: Row = {
            "op": number,
            "name": name,
            "journal": journal,
            "process": 0,
            "f": f,
            "outcome": outcome,
            "stage": "s" if role == "worker" else None,
            "group": "g" if role == "worker" else None,
            "transactional_id": f"id-{journal[0]}" if transactional else None,
            "asked": {"ok": "commit", "fail": "abort"}.get(outcome) if transactional else None,
            "call_ns": self.tick(),
            "commit_ns": self.tick() if transactional and outcome != "fail" else None,
            "return_ns": self.tick() if outcome != "info" else None,
            "fenced": False,
            "line": number + 1,
            "end_line": number + 2,
        }
        self.rows["ops"].append(defaults | more)
        return Op(number, name)

    def send(
        self,
        op: Op,
        topic: str,
        offset: int | None = None,
        *,
        inputs: Sequence[int] = (),
        digest: int | None = 7,
        output_name: str | None = None,
        value: str | None = None,
        source: str = "a",
    ) -> str:
        """Announce a send; `offset` None: it was not acknowledged. The value's name."""
        n = len(op.values)
        named = value or f"{op.name}:{n}"
        op.values.append(named)
        self.rows["sends"].append(
            {
                "op": op.op,
                "n": n,
                "value": named,
                "topic": topic,
                "tp": None if offset is None else self.tp[topic],
                "offset": offset,
                "acked": offset is not None,
                "output_name": output_name,
                "digest": digest,
                "inputs": [{"tp": self.tp[source], "offset": at} for at in inputs],
            }
        )
        return named

    def poll(
        self, op: Op, topic: str, offset: int, value: str | None, role: str = "worker", promised: str = RC
    ) -> None:
        """A delivery."""
        n, op.polled = op.polled, op.polled + 1
        self.rows["polls"].append(
            {
                "op": op.op,
                "n": n,
                "tp": self.tp[topic],
                "offset": offset,
                "value": value,
                "role": role,
                "promised": promised,
                "return_ns": self.clock,
            }
        )

    def feed(self, count: int = 1, topic: str = "a") -> None:
        """Inputs, one operation each, and what the stage owes them."""
        for _ in range(count):
            op = self.op("f", "send")
            at = self.put(topic, f"{op.name}:0", digest=7)
            self.send(op, topic, at)
            self.expect(at, topic)

    def expect(self, offset: int, source: str = "a", digest: int | None = 7) -> None:
        """What the stage owes an input: one output in each topic of `expects`."""
        for topic in self.expects:
            self.rows["expected"].append(
                {
                    "stage": "s",
                    "group": "g",
                    "tp": self.tp[source],
                    "offset": offset,
                    "output_name": topic,
                    "topic": topic,
                    "digest": digest,
                }
            )

    def take(
        self,
        *offsets: int,
        gives: str = "x",
        outcome: str = "ok",
        fate: str | None = None,
        offsets_fate: str | None = None,
        fates: dict[str, str] | None = None,
        worker: str = "w",
        pid: int = 1,
        acked: bool = True,
        poll: bool = True,
        source: str = "a",
        claim: tuple[int, int] | None = None,
        state: str | None = None,
        names: Sequence[int] | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Op:
        """A whole transaction: poll inputs, send an output for each to every topic of `gives`, commit.

        `fate`: how its markers say it ended (commit, abort, open); else as the client was told. `fates` has
        others for single topics, `offsets_fate` for the offset commit ("" : it never reached the log).
        """
        fate = fate or {"ok": "commit", "fail": "abort", "info": "commit"}[outcome]
        op = self.op(worker, "txn", outcome, **more)
        for at in offsets if poll else ():
            self.poll(op, source, at, self.entries[source][at].get("value"))
        for topic in gives:
            for at in names if names is not None else offsets:
                value = f"{op.name}:{len(op.values)}"
                place = self.put(
                    topic, value, pid, output_name=topic, inputs=[(source, at)], digest=7, key=key
                )
                self.send(op, topic, place if acked else None, inputs=[at], output_name=topic, source=source)
        ends = {topic: (fates or {}).get(topic, fate) for topic in gives}
        if offsets or claim:
            first, after = claim or (min(offsets), max(offsets) + 1)
            self.rows["claims"].append(
                {"op": op.op, "group": "g", "tp": self.tp[source], "first": first, "next": after}
            )
            if offsets_fate != "":
                self.offset(after, op, pid, source=source)
                ends[OFFSETS] = offsets_fate or fate
        for topic, end in ends.items():
            if end != "open":
                self.mark(topic, pid, end)
        pending = [topic for topic, end in ends.items() if end == "open"]
        if pending and state in (None, "Ongoing"):
            for how in sorted({end for end in ends.values() if end != "open"}):
                self.complete(pid, [topic for topic, end in ends.items() if end == how], how.capitalize())
            self.state(pid, "Ongoing", pending)
        else:
            how = (state or ("CompleteAbort" if fate == "abort" else "CompleteCommit"))[len("Complete") :]
            self.complete(pid, [topic for topic in ends if topic not in pending], how)
        return op

    def complete(self, pid: int, topics: Sequence[str], how: str = "Commit", epoch: int = 0) -> None:
        """The transaction log of a transaction from its beginning to its end."""
        self.state(pid, "Ongoing", topics, epoch)
        self.state(pid, f"Prepare{how}", topics, epoch)
        self.state(pid, f"Complete{how}", (), epoch)

    def offset(self, committed: int | None, op: Op | None = None, pid: int = -1, source: str = "a") -> None:
        """An offset commit in the log; outside any transaction if `pid` is -1."""
        at = self.put(OFFSETS, None, pid)
        self.rows["offsets"].append(
            {
                "log_tp": self.tp[OFFSETS],
                "log_offset": at,
                "group": "g",
                "tp": self.tp[source],
                "committed": committed,
                "metadata": op.name if op else "",
                "op": op.op if op else None,
                "producer_id": pid,
                "epoch": 0,
                "transactional": pid >= 0,
                "timestamp_ms": self._ms(),
            }
        )

    def state(self, pid: int, state: str, topics: Sequence[str] = (), epoch: int = 0) -> None:
        """A line of the transaction log."""
        at = self.put(TRANSACTIONS, None)
        self.rows["transactions"].append(
            {
                "log_tp": self.tp[TRANSACTIONS],
                "log_offset": at,
                "transactional_id": f"id-{pid}",
                "producer_id": pid,
                "epoch": epoch,
                "state": state,
                "tps": [self.tp[topic] for topic in topics],
                "timeout_ms": 10_000,
                "start_ms": self._ms(),
                "update_ms": self._ms(),
            }
        )

    def adds(self, offset: int, key: str, amount: int, topic: str = "y") -> None:
        """What an input adds to a key of a topic of sums."""
        self.rows["expected"].append(
            {
                "stage": "s",
                "group": "g",
                "tp": self.tp["a"],
                "offset": offset,
                "topic": topic,
                "key": key,
                "adds": amount,
            }
        )

    def assign(self, journal: str, topic: str = "a", *, gained: bool = True) -> None:
        """A partition is assigned to a worker, or taken from it."""
        self.rows["assignments"].append(
            {
                "journal": journal,
                "process": 0,
                "group": "g",
                "time_ns": self.tick(),
                "gained": gained,
                "tp": self.tp[topic],
            }
        )

    def observe(self, topic: str, offset: int, value: str | None = None, promised: str = RC) -> None:
        """An observer is given a record."""
        named = value or self.entries[topic][offset].get("value")
        self.poll(self.op("o", "poll"), topic, offset, named, role="observer", promised=promised)

    def owe(self, change: Callable[[Row], Row | None]) -> None:
        """Change what is expected of inputs when all is done; None: nothing is. The final reader writes it so."""
        self.revisions.append(change)

    def alter(self, table: str, change: Callable[[Row], Row | None]) -> None:
        """Bend the rows of a table when all is done; None takes the row away."""
        self.alterations.append((table, change))

    # what it comes to

    def tables(self, run: int) -> dict[str, list[Row]]:
        """Every table of the run."""
        return {table: [{**row, "run": run} for row in found] for table, found in self.made.items()}

    @cached_property
    def made(self) -> dict[str, list[Row]]:
        """Every table, bent as it is to be; nothing can happen any more."""
        return self.make()

    def make(self) -> dict[str, list[Row]]:
        """All that follows from what has happened; once."""
        return make_tables(self)

    def fates(self, topic: str) -> list[str | None]:
        """The fate of each entry, None for a marker."""
        found: list[str | None] = []
        marked: dict[int, str] = {}
        for entry in reversed(self.entries[topic]):
            if "marker" in entry:
                marked[entry["pid"]] = entry["marker"]
                found.append(None)
            else:
                found.append("plain" if entry["pid"] < 0 else marked.get(entry["pid"], "open"))
        return found[::-1]

    def _ms(self) -> int:
        return int(WALL_MS + self.clock / 1e6)
