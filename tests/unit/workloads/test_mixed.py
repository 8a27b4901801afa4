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
from harness.processes.control_line import Report
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_client import FakeClient
from workloads.loop.delivery import PROCESS_STRIDE
from workloads.loop.keys import ACTIVE_KEYS, FULL_OFFSETS, RETIRED_KEYS, Keys
from workloads.loop.mixed import MixedWorker
from workloads.loop.worker import WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.txn import TXN

PLACES = [("k", n) for n in range(12)]


@contextmanager
def worker(
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


def test_a_key_that_is_full_retires_and_the_next_comes_in():
    keys = Keys(PLACES)
    assert keys.active() == PLACES[:ACTIVE_KEYS] and keys.window() == PLACES[:ACTIVE_KEYS]
    keys.note_offset(PLACES[2], FULL_OFFSETS - 1)
    assert PLACES[2] not in keys.active() and PLACES[ACTIVE_KEYS] in keys.active()
    assert PLACES[2] in keys.window()
    for place in PLACES[:6]:
        keys.note_offset(place, FULL_OFFSETS)
    assert keys.window() == PLACES[6 - RETIRED_KEYS : 6 + ACTIVE_KEYS]


def test_where_all_keys_are_full_the_last_ones_go_on():
    keys = Keys(PLACES)
    for place in PLACES:
        keys.note_offset(place, FULL_OFFSETS)
    assert keys.active() == PLACES[-ACTIVE_KEYS:]


def test_each_send_is_announced_with_its_key_and_each_poll_is_tied_to_its_place(tmp_path: Path):
    with worker(FakeClient(), tmp_path) as one:
        for _ in range(30):
            one.turn()
    told = lines(tmp_path)
    begun = {line["op"]: line for line in told if line["type"] == "invoke" and line["f"] == "txn"}
    polls = [line for line in told if line.get("f") == "poll"]
    assert begun and polls
    for line in begun.values():
        assert sum(key is not None for key in line["micro"]) == len(line.get("sends", ()))
    assert all(begun[line["txn"]]["micro"][line["at"]] is None for line in polls)
    acks = [line["acks"] for line in told if line["type"] == "commit" and begun[line["op"]].get("sends")]
    assert acks and all(ack is not None for told in acks for ack in told)


def test_a_read_counts_once_its_transaction_has_committed(tmp_path: Path):
    client = FakeClient()
    with worker(client, tmp_path) as one:
        for _ in range(10):
            one.turn()
        read = dict(one.reading.read_to)
        assert read
        client.fails = {"commit": ErrorMeaning.ABORTABLE}
        one.turn()
        assert one.reading.read_to == read and one.reading.process == PROCESS_STRIDE
        client.fails = {}
        assert client.named("assign")[-1] == [
            [(*place, read.get(place, 0)) for place in one.reading.assigned]
        ]
        one.turn()
    assert lines(tmp_path)[-2]["process"] == PROCESS_STRIDE


def test_a_worker_that_does_not_rewind_goes_on_behind_what_it_read_in_vain(tmp_path: Path):
    client = FakeClient()
    with worker(client, tmp_path, Policy(rewind=False), abort_share=0.5) as one:
        for _ in range(40):
            one.turn()
        assert len(client.named("assign")) == 1 and one.counts.aborted
        assert all(
            offset == one.reading._consumer.read_positions()[place]
            for place, offset in one.reading.read_to.items()
        )


def test_at_its_end_a_worker_has_read_every_key_to_the_end(tmp_path: Path):
    client = FakeClient()
    with worker(client, tmp_path) as one:
        for _ in range(20):
            one.turn()
        one.finish()
        assert one.reading.read_to == {place: len(log) for place, log in client.kept.items()}
    last = lines(tmp_path)[-2]
    assert (last["type"], last["f"]) == ("ok", "poll") and "txn" not in last


def test_a_worker_that_cannot_read_every_key_to_its_end_tells_how_many_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.loop.mixed.FINAL_POLLS_S", 0.0)
    theirs, ours = socket.socketpair()
    with worker(FakeClient(), tmp_path, control=Control(theirs)) as one:
        for _ in range(20):
            one.turn()
        one.finish()
    theirs.close()
    told = [Report.parse(line) for line in ours.makefile("rb")]
    ours.close()
    assert [report.unread for report in told if report.unread is not None] == [
        len(one.keys.topic_partitions)
    ] * 2


def test_what_it_reads_was_written_by_its_like(tmp_path: Path):
    client = FakeClient()
    with worker(client, tmp_path, Policy(downstream_isolation=Isolation.READ_UNCOMMITTED)):
        pass
    assert client.named("assigned-consumer")[0][0].isolation is Isolation.READ_UNCOMMITTED
