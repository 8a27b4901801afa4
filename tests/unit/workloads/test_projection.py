"""A projector on a client without Kafka and a real SQLite: which inputs are applied, and how often."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from harness.databases.interface import Database, DatabaseParts
from harness.databases.sqlite import Sqlite
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_client import FakeClient, FakeRecord
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import Aggregate, Output, WorkloadStage

STAGE = WorkloadStage(
    "s",
    ("in",),
    ("applied", "users"),
    lambda record: (Output("applied", "applied", record.key, record.value),),
    aggregate=Aggregate("users", lambda record: ((record.key or b"", 1),), lambda record: None),
)
BATCH = [FakeRecord(("in", 0), 4), FakeRecord(("in", 1), 7)]


@pytest.fixture
def store(tmp_path: Path) -> Database:
    with Sqlite().provide(DatabaseParts(tmp_path, None, lambda: 0)):
        return Sqlite().connect(Sqlite().address(tmp_path))


@contextmanager
def make_worker(
    client: FakeClient,
    path: Path,
    store: Database,
    *,
    name: str = "w",
    delivery: Delivery = Delivery.STORED,
    policy: Policy = CORRECT,
    stage: WorkloadStage = STAGE,
) -> Iterator[Worker]:
    with Journal(path / f"{name}.jsonl", 0, JournalBegan(name)) as journal:
        settings = WorkerSettings("b", "g", "id-1", 0, 10, 0.0, 1, policy, delivery)
        yield Worker(stage, settings, client, journal, Control(None), store)


def sources(store: Database, table: str = "applied") -> list[str]:
    return [effect.sources for _, effect in store.effects(table)]


def outcomes(path: Path, name: str = "w") -> list[tuple[str, str]]:
    events = [orjson.loads(line) for line in (path / f"{name}.jsonl").read_bytes().splitlines()]
    return [
        (line["f"], line["type"]) for line in events if line["type"] in ("ok", "fail", "info") and "f" in line
    ]


def test_inputs_are_applied_once_and_the_position_moves_with_them(tmp_path: Path, store: Database) -> None:
    client = FakeClient(polled=list(BATCH))
    with make_worker(client, tmp_path, store) as worker:
        worker.turn()
    assert sources(store) == ["in/0/4", "in/1/7"]
    assert [state.changes for _, state in store.states("users")] == [2]
    assert store.position("g", ("in", 0)) == 5 and store.position("g", ("in", 1)) == 8
    assert worker.counts.committed == 1


def test_inputs_that_are_in_the_database_are_skipped(tmp_path: Path, store: Database) -> None:
    for name in ("w", "v"):  # the second worker starts after a crash before the group's commit
        with make_worker(FakeClient(polled=list(BATCH)), tmp_path, store, name=name) as worker:
            worker.turn()
    assert sources(store) == ["in/0/4", "in/1/7"]
    assert worker.counts.committed == 1  # the group's offsets are committed


def test_the_database_rejects_the_transaction_of_a_zombie(tmp_path: Path, store: Database) -> None:
    late = FakeRecord(("in", 0), 5)
    zombie = FakeClient(polled=list(BATCH))
    with make_worker(zombie, tmp_path, store) as worker:
        worker.turn()
        with make_worker(FakeClient(polled=[late]), tmp_path, store, name="next") as other:
            other.turn()
        zombie.polled.append(late)
        worker.turn()
    assert sources(store) == ["in/0/4", "in/1/7", "in/0/5"]
    assert ("send", "fail") in outcomes(tmp_path)


def test_effects_are_repeated_if_the_position_is_not_in_the_database(tmp_path: Path, store: Database) -> None:
    for name in ("w", "v"):
        client = FakeClient(polled=list(BATCH))
        with make_worker(client, tmp_path, store, name=name, policy=Policy(stores_position=False)) as worker:
            worker.turn()
    assert sources(store) == ["in/0/4", "in/1/7"] * 2
    assert store.position("g", ("in", 0)) is None


def test_an_abort_does_not_undo_a_side_effect(tmp_path: Path, store: Database) -> None:
    client = FakeClient(polled=list(BATCH))
    policy, plain = Policy(side_effect="charges"), replace(STAGE, aggregate=None)
    with make_worker(
        client, tmp_path, store, delivery=Delivery.TRANSACTIONS, policy=policy, stage=plain
    ) as worker:
        worker.rng.random = lambda: -1.0  # type: ignore[method-assign]
        worker.turn()
    assert worker.counts.aborted == 1
    assert sources(store, "charges") == ["in/0/4", "in/1/7"]
