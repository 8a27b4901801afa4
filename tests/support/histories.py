"""Small histories. Each becomes the stored tables of one run.

A history has an input topic `a`, output topics `x` and `y`, one partition each, and one stage `s` of group `g`. Each
input has one expected output in `x`. The log of a partition is an append-only list. `stored_tables` derives fates,
final reads, ends and replicas from it, as real brokers would write them. `alter` then changes rows of a table, as a
fault would.
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
    """An operation of a history. Other methods of `History` take it as an argument."""

    op: int
    name: str
    values: list[str] = field(default_factory=list)
    polled: int = 0


class History:
    """Collects the events of one run, in order, and makes its tables."""

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
        self.topic_partitions: dict[str, tuple[str, int]] = {}  # letters that are partitions of one topic
        self.inputs = inputs
        self.entries: dict[str, list[Row]] = {topic: [] for topic in self.topics}
        self.rows: dict[str, list[Row]] = {table: [] for table in (*HISTORY, *LOG)}
        self.journals: dict[str, Row] = {}
        self.clock = 0
        self.alterations: list[tuple[str, Callable[[Row], Row | None]]] = []
        self.stage_changes: list[Callable[[list[Row]], list[Row]]] = []
        self.revisions: list[Callable[[Row], Row | None]] = []
        self.incomplete: tuple[str, ...] = ()
        self.allowed: frozenset[str] = frozenset()
        self.permitted: frozenset[str] = frozenset()  # by the guarantee of the stage
        self.had_log = log  # the run read the brokers' logs; their tables may be missing all the same
        self.promises: Promises | None = None
        self.wall_ms: float | None = WALL_MS
        self.clock_drift_ms: float | None = 0.0
        self.followers = 0  # how many brokers besides the leader hold the same log
        self.healed = False  # it is known when the last fault was healed
        self.broken_premises: frozenset[Premise] = frozenset()
        self.passed_over: dict[str, list[tuple[str, int]]] = {}  # by group: partitions that it never read
        self.growths: dict[str, int] = {}  # by topic: how often it got more partitions during the run
        self.drained = False  # the run says that every stage took all of its inputs

    # events, in the order in which they happen

    def tick(self) -> int:
        self.clock += 1_000_000
        return self.clock

    def append(self, topic: str, value: str | None, pid: int = -1, epoch: int = 0, **more: Any) -> int:
        """Append a record and return its offset. `seq` is its sequence number, by default the next one."""
        log = self.entries[topic]
        own = [entry for entry in log if (entry["pid"], entry["epoch"]) == (pid, epoch) and "seq" in entry]
        seq = (own[-1]["seq"] + 1) % 2**31 if own else 0
        log.append({"value": value, "pid": pid, "epoch": epoch, "ms": self._ms(), "seq": seq} | more)
        return len(log) - 1

    def append_marker(self, topic: str, pid: int, marker: str, epoch: int = 0, ms: int | None = None) -> int:
        """Append a marker and return its offset."""
        entry = {"marker": marker, "pid": pid, "epoch": epoch, "ms": self._ms() if ms is None else ms}
        self.entries[topic].append(entry)
        return len(self.entries[topic]) - 1

    def op(self, journal: str = "w", f: str = "txn", outcome: str = "ok", **more: Any) -> Op:
        """Add an operation. The first letter of `journal` says the role: f feeder, o observer, z final reader;
        any other letter is a worker.
        """
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
            "commit_ns": self.tick() if transactional and f == "txn" and outcome != "fail" else None,
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
        """Add a send to an operation and return the record's value. `offset` None: it was not acknowledged."""
        n = len(op.values)
        record_value = value or f"{op.name}:{n}"
        op.values.append(record_value)
        self.rows["sends"].append(
            {
                "op": op.op,
                "n": n,
                "value": record_value,
                "topic": topic,
                "tp": None if offset is None else self.tp[topic],
                "offset": offset,
                "acked": offset is not None,
                "output_name": output_name,
                "digest": digest,
                "inputs": [{"tp": self.tp[source], "offset": at} for at in inputs],
            }
        )
        return record_value

    def poll(
        self, op: Op, topic: str, offset: int, value: str | None, role: str = "worker", promised: str = RC
    ) -> None:
        """Deliver a record to the poll of an operation."""
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
        """Append `count` inputs, one send operation each, with their expected outputs."""
        for _ in range(count):
            op = self.op("f", "send")
            at = self.append(topic, f"{op.name}:0", digest=7)
            self.send(op, topic, at)
            self.expect(at, topic)

    def expect(
        self,
        offset: int,
        source: str = "a",
        digest: int | None = 7,
        stage: str = "s",
        output_name: str | None = None,
    ) -> None:
        """Expect one output of this input in each topic of `self.expects`."""
        for topic in self.expects:
            self.rows["expected"].append(
                {
                    "stage": stage,
                    "group": "g",
                    "tp": self.tp[source],
                    "offset": offset,
                    "output_name": output_name or topic,
                    "topic": topic,
                    "digest": digest,
                }
            )

    def transact(
        self,
        *offsets: int,
        to: str = "x",
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
        output_inputs: Sequence[int] | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Op:
        """Process inputs in one transaction: poll them, send an output of each to every topic of `to`, and commit.

        Args:
            offsets: The inputs, in the topic `source`.
            to: Letters of topics.
            outcome: The outcome in the journal: ok, fail or info.
            fate: How the markers end the transaction: commit, abort or open (no marker). By default it agrees with
                `outcome`.
            fates: A different fate for single topics.
            offsets_fate: A different fate for the offset commit. "" means that no offset commit is in the log.
            output_inputs: The inputs that the outputs name, by default `offsets`.
            claim: First and next offset of the claim, by default those of `offsets`.
            state: The last state of the transaction in the transaction log.
        """
        fate = fate or {"ok": "commit", "fail": "abort", "info": "commit"}[outcome]
        op = self.op(worker, "txn", outcome, **more)
        for at in offsets if poll else ():
            self.poll(op, source, at, self.entries[source][at].get("value"))
        for topic in to:
            for at in output_inputs if output_inputs is not None else offsets:
                value = f"{op.name}:{len(op.values)}"
                offset = self.append(
                    topic, value, pid, output_name=topic, inputs=[(source, at)], digest=7, key=key
                )
                self.send(op, topic, offset if acked else None, inputs=[at], output_name=topic, source=source)
        ends = {topic: (fates or {}).get(topic, fate) for topic in to}
        if offsets or claim:
            first, after = claim or (min(offsets), max(offsets) + 1)
            self.rows["claims"].append(
                {"op": op.op, "group": "g", "tp": self.tp[source], "first": first, "next": after}
            )
            if offsets_fate != "":
                self.commit_offset(after, op, pid, source=source)
                ends[OFFSETS] = offsets_fate or fate
        for topic, end in ends.items():
            if end != "open":
                self.append_marker(topic, pid, end)
        pending = [topic for topic, end in ends.items() if end == "open"]
        if pending and state in (None, "Ongoing"):
            for how in sorted({end for end in ends.values() if end != "open"}):
                self.log_transaction(
                    pid, [topic for topic, end in ends.items() if end == how], how.capitalize()
                )
            self.log_state(pid, "Ongoing", pending)
        else:
            how = (state or ("CompleteAbort" if fate == "abort" else "CompleteCommit"))[len("Complete") :]
            self.log_transaction(pid, [topic for topic in ends if topic not in pending], how)
        return op

    def log_transaction(self, pid: int, topics: Sequence[str], how: str = "Commit", epoch: int = 0) -> None:
        """Append the states of a complete transaction to the transaction log. `how` is Commit or Abort."""
        self.log_state(pid, "Ongoing", topics, epoch)
        self.log_state(pid, f"Prepare{how}", topics, epoch)
        self.log_state(pid, f"Complete{how}", (), epoch)

    def commit_offset(
        self, committed: int | None, op: Op | None = None, pid: int = -1, source: str = "a"
    ) -> None:
        """Append an offset commit of group `g`. It is outside any transaction if `pid` is -1."""
        at = self.append(OFFSETS, None, pid)
        self.rows["offsets"].append(
            {
                "log_tp": self.tp[OFFSETS],
                "log_offset": at,
                "group": "g",
                "tp": self.tp[source],
                "committed": committed,
                "metadata": None if committed is None else op.name if op else "",
                "op": op.op if op else None,
                "producer_id": pid,
                "epoch": self.entries[OFFSETS][at]["epoch"] if pid >= 0 else -1,
                "transactional": pid >= 0,
                "timestamp_ms": self._ms(),
            }
        )

    def log_state(self, pid: int, state: str, topics: Sequence[str] = (), epoch: int = 0) -> None:
        """Append a state to the transaction log. `topics` are the partitions in the transaction."""
        at = self.append(TRANSACTIONS, None)
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

    def expect_amount(self, offset: int, key: str, amount: int, topic: str = "y") -> None:
        """Expect that an input adds `amount` to the sum of `key` in `topic`."""
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
        """Assign a partition to a worker, or revoke it if `gained` is false."""
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
        """Deliver a record to an observer. `value` replaces the record's own value."""
        delivered = value or self.entries[topic][offset].get("value")
        self.poll(self.op("o", "poll"), topic, offset, delivered, role="observer", promised=promised)

    def alter_expected(self, change: Callable[[Row], Row | None]) -> None:
        """Change the rows of the table `expected` as the final reader would write them. None removes a row."""
        self.revisions.append(change)

    def alter_stages(self, change: Callable[[list[Row]], list[Row]]) -> None:
        """Change the table of stages, as another pipeline would have it."""
        self.stage_changes.append(change)

    def alter(self, table: str, change: Callable[[Row], Row | None]) -> None:
        """Change the rows of a table after all tables are made. None removes a row."""
        self.alterations.append((table, change))

    def without_topic(self, topic: str) -> None:
        """Remove the rows of a topic from all tables, as if the run had not had it."""
        tp = self.tp[topic]
        for table in ("partitions", "batches", "replicas"):
            self.alter(table, lambda row: None if row["tp"] == tp else row)
        for table in ("offsets", "transactions"):
            self.alter(table, lambda row: None if row["log_tp"] == tp else row)

    # the tables

    def tables(self, run: int) -> dict[str, list[Row]]:
        """Every table of the run."""
        return {table: [{**row, "run": run} for row in rows] for table, rows in self.built.items()}

    @cached_property
    def built(self) -> dict[str, list[Row]]:
        """Every table with its alterations. After the first use, no event can be added."""
        return self.make()

    def make(self) -> dict[str, list[Row]]:
        """Make the tables. This works only once."""
        return make_tables(self)

    def fates(self, topic: str) -> list[str | None]:
        """The fate of each entry, None for a marker."""
        fates: list[str | None] = []
        markers: dict[int, str] = {}  # the next marker, by producer id
        for entry in reversed(self.entries[topic]):
            if "marker" in entry:
                markers[entry["pid"]] = entry["marker"]
                fates.append(None)
            else:
                fates.append("plain" if entry["pid"] < 0 else markers.get(entry["pid"], "open"))
        return fates[::-1]

    def _ms(self) -> int:
        return int(WALL_MS + self.clock / 1e6)
