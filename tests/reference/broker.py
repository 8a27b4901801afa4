"""A correct broker, and clients of it that do what clients may do: no anomaly but allowed ones.

Each client is a generator that yields wherever another one may act in between. The scheduler draws who acts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.reference.forms import Mop, f_of, mops_as_invoked
from tests.reference.history import Event

OPEN, COMMIT, ABORT = "open", "commit", "abort"
MARKER = None
OUTCOMES = {"ok": 12, "fail": 3, "info": 2, "killed": 1}


class Broker:
    """One log for each key. A committed record is visible unless an open record is below it."""

    def __init__(self, keys: list[str]) -> None:
        self.logs: dict[str, list[tuple[int | None, int]]] = {key: [] for key in keys}
        self.fates: list[str] = []

    def begin(self) -> int:
        self.fates.append(OPEN)
        return len(self.fates) - 1

    def append(self, key: str, value: int, txn: int) -> int:
        self.logs[key].append((value, txn))
        return len(self.logs[key]) - 1

    def end(self, txn: int, fate: str) -> None:
        self.fates[txn] = fate
        for log in self.logs.values():
            if any(writer == txn for _, writer in log):
                log.append((MARKER, txn))

    def read(self, key: str, position: int, most: int) -> tuple[list[list[Any]], int]:
        """The records that a read-committed consumer polls from a position, and its position afterwards."""
        given: list[list[Any]] = []
        log = self.logs[key]
        while position < len(log) and len(given) < most:
            value, txn = log[position]
            if self.fates[txn] == OPEN:
                break
            if value is not MARKER and self.fates[txn] == COMMIT:
                given.append([position, value])
            position += 1
        return given, position


@dataclass
class Client:
    """A consumer and producer under one process number; a new one follows after `info`."""

    process: int
    positions: dict[str, int] = field(default_factory=dict)


class Simulation:
    """Clients and a broker, until `size` operations were begun; then a reader of everything."""

    def __init__(self, rng: Random, size: int, keys: list[str], clients: int) -> None:
        self.rng = rng
        self.left = size
        self.keys = keys
        self.broker = Broker(keys)
        self.joins = rng.choice(["assign", "subscribe"])
        self.events: list[Event] = []
        self.processes = self.values = 0
        self.pending: list[tuple[int, str]] = []  # transactions whose client has gone, and what they will be
        workers = [self._live() for _ in range(clients)]
        while workers:
            worker = rng.choice(workers)
            if next(worker, "ended") == "ended":
                workers.remove(worker)
            if self.pending and rng.random() < 0.1:
                self.broker.end(*self.pending.pop(0))
        for txn, fate in self.pending:
            self.broker.end(txn, fate)
        self._read_everything()

    def emit(self, client: Client, kind: str, f: str, value: Any, **more: Any) -> None:
        self.events.append({"process": client.process, "type": kind, "f": f, "value": value, **more})

    def _client(self) -> Client:
        self.processes += 1
        return Client(self.processes - 1)

    def _join(self, client: Client, keys: list[str], start: bool = False) -> None:
        """Assign keys. The consumer keeps positions of keys that it had. Others begin at random, or at 0 if `start`."""
        self.emit(client, "invoke", self.joins, keys)
        somewhere = {key: 0 if start else self.rng.randint(0, len(self.broker.logs[key])) for key in keys}
        client.positions = somewhere | {k: at for k, at in client.positions.items() if k in keys}
        self.emit(client, "ok", self.joins, keys)

    def _live(self) -> Iterator[None]:
        client = self._client()
        self._join(client, self._some_keys())
        while self.left > 0:
            self.left -= 1
            roll = self.rng.random()
            if roll < 0.06:
                self._join(client, self._some_keys())
            elif roll < 0.08:
                self.events.append({"process": "nemesis", "type": "info", "f": "kill-broker", "value": None})
            elif roll < 0.1:
                self.emit(client, "invoke", "crash", None)
                self.emit(client, "info", "crash", None)
                client = self._client()
                self._join(client, self._some_keys())
            else:
                outcome = self.rng.choices(list(OUTCOMES), list(OUTCOMES.values()))[0]
                yield from self._transact(client, outcome)
                if outcome in ("info", "killed"):
                    client = self._client()
                    self._join(client, self._some_keys())
            yield

    def _some_keys(self) -> list[str]:
        return sorted(self.rng.sample(self.keys, self.rng.randint(1, len(self.keys))))

    def _transact(self, client: Client, outcome: str) -> Iterator[None]:
        plan = self._plan()
        f, more = f_of(plan), {}
        self.emit(client, "invoke", f, mops_as_invoked(plan))
        yield
        txn, start, done = self.broker.begin(), dict(client.positions), list[Mop]()
        for mop in plan:
            if mop[0] == "send":
                offset = self.broker.append(mop[1], mop[2], txn)
                done.append(["send", mop[1], self._completed_send(offset, mop[2])])
            else:
                done.append(self._poll(client))
                if self.joins == "subscribe" and self.rng.random() < 0.1:
                    more = {"rebalance-log": [{"keys": self._rebalance(client)}]}
            yield
        if outcome == "ok":
            self.broker.end(txn, COMMIT)
        elif outcome == "fail":
            self.broker.end(txn, ABORT)
            client.positions = start
        else:
            self.pending.append((txn, self.rng.choice([COMMIT, ABORT])))
        if outcome != "killed":
            yield
            known = outcome == "ok" or self.rng.random() < 0.5
            self.emit(client, outcome, f, done if known else mops_as_invoked(plan), **more)

    def _plan(self) -> list[Mop]:
        plan: list[Mop] = []
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.5:
                plan.append(["poll"])
            else:
                self.values += 1
                plan.append(["send", self.rng.choice(self.keys), self.values])
        return plan

    def _completed_send(self, offset: int, value: int) -> Any:
        return self.rng.choices([[offset, value], [None, value], value], [8, 1, 1])[0]

    def _poll(self, client: Client) -> Mop:
        polled = {}
        for key, position in client.positions.items():
            given, client.positions[key] = self.broker.read(key, position, self.rng.randint(1, 5))
            if given or self.rng.random() < 0.1:
                polled[key] = given
        return ["poll", polled]

    def _rebalance(self, client: Client) -> list[str]:
        """Its keys go to another consumer and come back, to be read from somewhere else."""
        for key in client.positions:
            client.positions[key] = self.rng.randint(0, len(self.broker.logs[key]))
        return sorted(client.positions)

    def _read_everything(self) -> None:
        client = self._client()
        self._join(client, self.keys, start=True)
        while any(at < len(self.broker.logs[key]) for key, at in client.positions.items()):
            self.emit(client, "invoke", "poll", [["poll"]])
            self.emit(client, "ok", "poll", [self._poll(client)])
