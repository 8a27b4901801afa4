"""The loop of random sends and polls, on a client without Kafka."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.clients.interface import ErrorMeaning
from harness.model.vocabulary import Isolation
from harness.processes.messages import Report
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_client import FakeClient
from workloads.loop.delivery import PROCESS_STRIDE
from workloads.loop.mixed import ACTIVE_KEYS, FULL_OFFSETS, RETIRED_KEYS, Keys, MixedWorker
from workloads.loop.worker import WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.txn import TXN

KEYS = [("k", n) for n in range(12)]


@contextmanager
def make_worker(
    client: FakeClient,
    path: Path,
    policy: Policy = CORRECT,
    abort_share: float = 0.0,
    control: Control | None = None,
) -> Iterator[MixedWorker]:
    with Journal(
        path / "txn-1.0.jsonl", 0, JournalBegan("txn-1.0", role="worker", stage="txn", process=0)
    ) as journal:
        settings = WorkerSettings(
            "b", None, "txn-1", 0, 20, abort_share, 1, policy, Delivery.MIXED, partitions=3
        )
        yield MixedWorker(TXN.stages[0], settings, client, journal, control or Control(None))


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (path / "txn-1.0.jsonl").read_bytes().splitlines()]


def test_a_full_key_retires_and_the_next_key_becomes_active():
    keys = Keys(KEYS)
    assert keys.active() == KEYS[:ACTIVE_KEYS] and keys.window() == KEYS[:ACTIVE_KEYS]
    keys.note_offset(KEYS[2], FULL_OFFSETS - 1)
    assert KEYS[2] not in keys.active() and KEYS[ACTIVE_KEYS] in keys.active()
    assert KEYS[2] in keys.window()
    for key in KEYS[:6]:
        keys.note_offset(key, FULL_OFFSETS)
    assert keys.window() == KEYS[6 - RETIRED_KEYS : 6 + ACTIVE_KEYS]


def test_if_all_keys_are_full_the_last_ones_stay_active():
    keys = Keys(KEYS)
    for key in KEYS:
        keys.note_offset(key, FULL_OFFSETS)
    assert keys.active() == KEYS[-ACTIVE_KEYS:]


def test_the_journal_has_the_key_of_each_send_and_the_index_of_each_poll(tmp_path: Path):
    with make_worker(FakeClient(), tmp_path) as worker:
        for _ in range(30):
            worker.turn()
    events = lines(tmp_path)
    begun = {line["op"]: line for line in events if line["type"] == "invoke" and line["f"] == "txn"}
    polls = [line for line in events if line.get("f") == "poll"]
    assert begun and polls
    for line in begun.values():
        assert sum(key is not None for key in line["micro"]) == len(line.get("sends", ()))
    assert all(begun[line["txn"]]["micro"][line["at"]] is None for line in polls)
    acks = [line["acks"] for line in events if line["type"] == "commit" and begun[line["op"]].get("sends")]
    assert acks and all(ack is not None for of_txn in acks for ack in of_txn)


def test_a_read_counts_after_its_transaction_has_committed(tmp_path: Path):
    client = FakeClient()
    with make_worker(client, tmp_path) as worker:
        for _ in range(10):
            worker.turn()
        read = dict(worker.reading.read_to)
        assert read
        client.fails = {"commit": ErrorMeaning.ABORTABLE}
        worker.turn()
        assert worker.reading.read_to == read and worker.reading.process == PROCESS_STRIDE
        client.fails = {}
        assert client.arguments_of("assign")[-1] == [
            [(*key, read.get(key, 0)) for key in worker.reading.assigned]
        ]
        worker.turn()
    assert lines(tmp_path)[-2]["process"] == PROCESS_STRIDE


def test_the_defect_no_rewind_continues_after_reads_of_aborted_transactions(tmp_path: Path):
    client = FakeClient()
    with make_worker(client, tmp_path, Policy(rewind=False), abort_share=0.5) as worker:
        for _ in range(40):
            worker.turn()
        assert len(client.arguments_of("assign")) == 1 and worker.counts.aborted
        assert all(
            offset == worker.reading._consumer.read_positions()[key]
            for key, offset in worker.reading.read_to.items()
        )


def test_at_the_end_of_the_run_a_worker_reads_every_key_to_its_end(tmp_path: Path):
    client = FakeClient()
    with make_worker(client, tmp_path) as worker:
        for _ in range(20):
            worker.turn()
        worker.finish()
        assert worker.reading.read_to == {key: len(log) for key, log in client.logs.items()}
    last = lines(tmp_path)[-2]
    assert (last["type"], last["f"]) == ("ok", "poll") and "txn" not in last


def test_a_worker_reports_the_number_of_keys_that_are_not_read_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.loop.mixed.FINAL_POLLS_S", 0.0)
    worker_end, run_end = socket.socketpair()
    with make_worker(FakeClient(), tmp_path, control=Control(worker_end)) as worker:
        for _ in range(20):
            worker.turn()
        worker.finish()
    worker_end.close()
    reports = [Report.parse(line) for line in run_end.makefile("rb")]
    run_end.close()
    assert [report.unread for report in reports if report.unread is not None] == [
        len(worker.keys.topic_partitions)
    ] * 2


def test_a_stage_that_reads_its_outputs_counts_as_a_downstream_stage(tmp_path: Path):
    client = FakeClient()
    with make_worker(client, tmp_path, Policy(downstream_isolation=Isolation.READ_UNCOMMITTED)):
        pass
    assert client.arguments_of("assigned-consumer")[0][0].isolation is Isolation.READ_UNCOMMITTED
