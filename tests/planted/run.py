"""A random run of a correct pipeline, into which plants add anomalies.

Inputs are in `a` and `b`. Outputs are in `x` and `y`, which observers read. Some records of these may be removed in
the end. `p` and `q` have other records and those of plants. Each pair may be two partitions of one topic. `h`, `l` and
`m` are for logs into which only one plant may write, and `s` is for sums.
"""

from collections.abc import Collection, Sequence
from random import Random
from typing import Any

from tests.planted import gone
from tests.planted.late import LateMarkers
from tests.support.histories import Op
from tests.support.stored_tables import RC, RU, Row, count_polls, number_again

INPUTS, OUTPUTS = "ab", "xypqhlms"
WORKERS = range(1, 5)
"""By producer id."""
BATCHED = "abxy"
"""Topics in which a batch may hold several records."""
SECOND = 1_000_000_000


class Run(LateMarkers):
    """Workers and observers. Each worker has the inputs of one topic at a time.

    A worker is a transactional id with a producer id. Sometimes a new process replaces it, with a higher epoch.
    """

    def __init__(self, rng: Random, *, whole: bool = False) -> None:
        super().__init__(rng, inputs=INPUTS, outputs=OUTPUTS, ordered=True)
        self.followers = rng.randint(1, 2)
        self.healed = True
        for letters in ("ab", "xy", "pq") if rng.random() < 0.5 else ():
            self.topic_partitions |= {letter: (letters, number) for number, letter in enumerate(letters)}
        self.due: dict[str, list[int]] = {topic: [] for topic in INPUTS}  # fed, and not yet taken
        self.owner: dict[str, int] = {}  # the worker that has the topic
        self.epochs: dict[int, int] = {}  # by producer id
        self.seen: dict[tuple[str, str], int] = {}  # how far each observer has read
        self.processes = 0
        self.whole = whole
        self.gone: dict[str, set[int]] = {}  # in the end, by partition that is not whole

    def op(self, journal: str = "w", f: str = "txn", outcome: str = "ok", **more: Any) -> Op:
        """Add an operation. Most operations with outcome info return with an error."""
        op = super().op(journal, f, outcome, **more)
        if outcome == "info" and "return_ns" not in more and self.rng.random() < 0.7:
            self.rows["ops"][-1]["return_ns"] = self.tick()
        return op

    def transact(self, *offsets: int, worker: str = "w", source: str = "a", **more: Any) -> Op:
        """Poll the inputs in an operation before the transaction, as workers do."""
        reader = self.op(worker, "poll")
        for at in offsets:
            self.poll(reader, source, at, self.entries[source][at]["value"])
        return super().transact(*offsets, worker=worker, source=source, poll=False, **more)

    def append(self, topic: str, value: str | None, pid: int = -1, epoch: int = 0, **more: Any) -> int:
        return super().append(topic, value, pid, epoch or self.epochs.get(pid, 0), **more)

    def append_marker(self, topic: str, pid: int, marker: str, epoch: int = 0, ms: int | None = None) -> int:
        return super().append_marker(topic, pid, marker, epoch or self.epochs.get(pid, 0), ms)

    def log_state(self, pid: int, state: str, topics: Sequence[str] = (), epoch: int = 0) -> None:
        super().log_state(pid, state, topics, epoch or self.epochs.get(pid, 0))

    def make(self) -> dict[str, list[Row]]:
        """Make the tables with some batches of several records."""
        tables = super().make()
        if not self.whole:
            self.gone = gone.remove_records(self, tables, self.rng)
            number_again(tables, {"polls"})
            count_polls(tables)
        joined = {(self.tp[topic], at) for topic in BATCHED for at in range(500) if self.rng.random() < 0.5}
        tables["batches"] = batched(tables["batches"], joined)
        return tables

    # steps of a correct pipeline

    def step(self) -> None:
        """Do one random step of a correct pipeline."""
        topic = self.rng.choice(INPUTS)
        doing = self.rng.choices(
            [self.feeds, self.takes, self.rebalances, self.observes, self.writes], [3, 5, 1, 2, 1]
        )[0]
        doing(topic)

    def feeds(self, topic: str) -> None:
        start, count = len(self.entries[topic]), self.rng.randint(1, 3)
        if self.rng.random() < 0.1:
            self.append(topic, None, 99)
            self.mark_now(topic, 99, "abort")
            start += 2
        self.feed(count, topic)
        self.due[topic] += range(start, start + count)

    def takes(self, topic: str, outcome: str = "") -> None:
        """Process up to three inputs. If the transaction does not commit, they are processed again later."""
        if not self.due[topic]:
            return
        if topic not in self.owner:
            self.rebalances(topic)
        worker = self.owner[topic]
        taken = self.due[topic][: self.rng.randint(1, 3)]
        outcome = outcome or self.rng.choices(["ok", "fail", "info"], [6, 1, 1])[0]
        fate = {"ok": "commit", "fail": "abort"}.get(outcome) or self.rng.choice(["commit", "abort"])
        topics = self.rng.choice(["x", "x", "xy", "xpq", "xq"])
        self.transact(
            *taken,
            to=topics,
            outcome=outcome,
            fate=fate,
            worker=self.process(worker),
            pid=worker,
            source=topic,
            transactional_id=f"id-{worker}",
        )
        if fate == "commit":
            usual, self.expects = self.expects, topics.removeprefix(self.expects)
            for at in taken:  # the others of its outputs are due as well
                self.expect(at, topic)
            self.expects = usual
            del self.due[topic][: len(taken)]

    def rebalances(self, topic: str) -> None:
        """Assign the topic to a random worker, which may be the same as before."""
        self.leaves(topic)
        worker = self.rng.choice([w for w in WORKERS if w not in self.owner.values()])
        if worker not in self.epochs or self.rng.random() < 0.3:
            self.epochs[worker] = self.epochs.get(worker, -1) + 1
            self.op(self.process(worker), "init", transactional_id=f"id-{worker}")
        self.owner[topic] = worker
        self.assign(self.process(worker), topic)

    def leaves(self, topic: str) -> None:
        """Revoke the topic from its worker."""
        if topic in self.owner:
            self.assign(self.process(self.owner.pop(topic)), topic, gained=False)

    def process(self, worker: int) -> str:
        """The process that has the worker's transactional id now."""
        return f"w{worker}-{self.epochs[worker]}"

    def observes(self, _: str) -> None:
        """Have an observer poll the next visible records of `x` or `y`."""
        reader, topic = self.rng.choice(["o", "o1", "o2"]), self.rng.choice("xy")
        fates = self.fates(topic)
        promised = RU if reader == "o2" else RC
        stable = fates.index("open") if "open" in fates and promised == RC else len(fates)
        begun = self.seen.get((reader, topic), 0)
        readable = {"commit", "plain", *(["abort", "open"] if promised == RU else [])}
        ahead = [at for at in range(begun, stable) if fates[at] in readable]
        given = ahead[: self.rng.randint(1, 4)]
        op = self.op(reader, "poll")
        for at in given:
            self.poll(op, topic, at, self.entries[topic][at]["value"], role="observer", promised=promised)
            self.seen[reader, topic] = at + 1

    def writes(self, _: str) -> None:
        """Send records to `p` and `q` in a transaction without inputs and with a random outcome."""
        worker, pid = self.fresh()
        outcome = self.rng.choice(["ok", "fail", "info"])
        op = self.op(worker, "txn", outcome)
        fate = {"ok": "commit", "fail": "abort"}.get(outcome) or self.rng.choice(["commit", "abort"])
        topics = self.rng.choice(["p", "q", "pq"])
        for topic in topics:
            for _ in range(self.rng.randint(1, 2)):
                value = f"{op.name}:{len(op.values)}"
                self.send(op, topic, self.append(topic, value, pid, digest=7))
            self.append_marker(topic, pid, fate)
        self.log_transaction(pid, topics, "Commit" if fate == "commit" else "Abort")

    # helpers for plants

    def fresh(self) -> tuple[str, int]:
        """A new worker and a new producer id."""
        self.processes += 1
        return f"p{self.processes}", 100 + self.processes

    def fed(self, count: int, *, source: str = "", owes: str = "p") -> tuple[str, list[int]]:
        """Append inputs, each with one expected output in every topic of `owes`. Return their topic and offsets.

        All inputs below them are processed, and the topic is revoked from its worker.
        """
        topic = source or self.rng.choice(INPUTS)
        while self.due[topic]:
            self.takes(topic, "ok")
        self.leaves(topic)
        start, usual = len(self.entries[topic]), self.expects
        self.expects = owes
        self.feed(count, topic)
        self.expects = usual
        return topic, list(range(start, start + count))

    def sent(self, topic: str, count: int) -> tuple[Op, list[int]]:
        """Append successive records in a committed transaction without inputs. Return the operation and the offsets."""
        worker, pid = self.fresh()
        op = self.op(worker)
        offsets = []
        for n in range(count):
            offsets.append(self.append(topic, f"{op.name}:{n}", pid, digest=7))
            self.send(op, topic, offsets[-1])
        self.append_marker(topic, pid, "commit")
        self.log_transaction(pid, topic)
        return op, offsets

    def sent_of(self, op: Op, topic: str) -> list[int]:
        """The offsets of the operation's records."""
        return [at for at, entry in enumerate(self.entries[topic]) if entry.get("value") in op.values]

    def shown(self, topic: str, offset: int, value: str | None = None, promised: str = RC) -> Op:
        """Have a new observer poll the record, and return the operation."""
        self.settle(topic)
        op = self.op(f"o-{self.fresh()[0]}", "poll")
        named = value or self.entries[topic][offset]["value"]
        self.poll(op, topic, offset, named, role="observer", promised=promised)
        return op

    def ends(self) -> None:
        """Process all inputs, and let a minute pass."""
        for topic in INPUTS:
            while self.due[topic]:
                self.takes(topic, "ok")
        self.settle()
        self.clock += 60 * SECOND


def batched(rows: list[Row], joined: Collection[tuple[int, int]]) -> list[Row]:
    """Join the batches at these offsets with the batch before, if one producer wrote both."""
    found: list[Row] = []
    last: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: (row["broker"], row["tp"], row["base_offset"])):
        before = last.get((row["broker"], row["tp"]))
        if before and (row["tp"], row["base_offset"]) in joined and _joins(before, row):
            before |= {name: row[name] for name in ("last_offset", "max_timestamp_ms")}
            before["count"] += 1
        else:
            found.append(row)
            last[row["broker"], row["tp"]] = row
    return found


def _joins(before: Row, row: Row) -> bool:
    same = all(before[name] == row[name] for name in ("producer_id", "epoch", "leader_epoch"))
    return same and not before["control"] and not row["control"]
