"""The loop and its deliveries, on a client without Kafka: which calls are made, and in which order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from harness.clients.interface import ClientError, ErrorMeaning, PartitionOffset
from harness.model.vocabulary import Isolation, WorkerStep
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_client import FakeClient, FakeRecord
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy, steps, zombie_steps
from workloads.model.workload import Aggregate, Output, WorkloadStage

ECHO = WorkloadStage(
    "s", ("in",), ("out",), lambda record: (Output("out", "echo", record.key, record.value),)
)
SUMS = replace(
    ECHO,
    transform=lambda record: (),
    aggregate=Aggregate(
        "sums", lambda record: ((record.key or b"", 1),), lambda record: int(record.value or b"0")
    ),
)
BATCH = [FakeRecord(("in", 0), 4), FakeRecord(("in", 1), 7)]


@contextmanager
def make_worker(
    client: FakeClient, path: Path, delivery: Delivery, policy: Policy = CORRECT, stage: WorkloadStage = ECHO
) -> Iterator[Worker]:
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "g", "id-1", 0, 10, 0.0, 1, policy, delivery)
        yield Worker(stage, settings, client, journal, Control(None))


def lines(path: Path) -> list[tuple[str, str]]:
    """The type and the kind of operation of each event in the journal that is of an operation."""
    events = [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]
    return [(line["type"], line["f"]) for line in events if "f" in line]


def calls(client: FakeClient) -> list[str]:
    return [call[0] for call in client.calls if call[0] not in ("plain", "committed")]


def stop_failing_after(times: int, call: str, worker: Worker, client: FakeClient) -> None:
    """Let no call fail any more after the worker has made this call that many times."""
    listen = worker.control.listen

    def listen_then_heal(timeout_s: float = 0.0) -> None:
        if len(client.arguments_of(call)) == times:
            client.fails = {}
        listen()

    worker.control.listen = listen_then_heal  # type: ignore[method-assign]


def test_a_transaction_holds_outputs_and_offsets(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH))
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        worker.turn()
    assert calls(client) == ["init", "begin", "send", "send", "send-offsets", "commit"]
    assert client.arguments_of("send-offsets") == [["id-1", [("in", 0, 5), ("in", 1, 8)]]]
    assert worker.counts.committed == 1 and worker.counts.inputs == 2


@pytest.mark.parametrize("failure", [ErrorMeaning.FATAL, ErrorMeaning.FENCED, ErrorMeaning.ABORTABLE])
def test_a_transaction_that_cannot_begin_has_failed(failure: ErrorMeaning, tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH), fails={"begin": failure})
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        worker.turn()
        assert lines(tmp_path)[-1] == ("fail", "txn") and not client.arguments_of("send")
        client.fails, client.polled = {}, list(BATCH)
        worker.turn()
    assert (worker.counts.failed, worker.counts.committed) == (1, 1)
    assert len(client.arguments_of("init")) == (1 if failure is ErrorMeaning.ABORTABLE else 2)


def test_a_producer_that_cannot_be_initialised_is_discarded_before_the_next(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH), fails={"init": ErrorMeaning.FATAL})
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        stop_failing_after(1, "init", worker, client)
        worker.turn()
    assert calls(client)[:3] == ["init", "discard", "init"] and worker.counts.committed == 1


def test_a_replaced_worker_does_not_initialise_its_transactional_id(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH))
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        worker.control.replaced = True
        worker.turn()
    assert not client.arguments_of("init") and not client.arguments_of("send")


def test_a_pinned_producer_has_a_transaction_for_each_partition(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH))
    with make_worker(client, tmp_path, Delivery.PINNED) as worker:
        worker.on_assigned([("in", 0), ("in", 1)])
        worker.turn()
        worker.on_revoked([("in", 0)])
        worker.on_assigned([("in", 0)])
    assert client.arguments_of("init") == [["in-0"], ["in-1"], ["in-0"]]
    assert client.arguments_of("discard") == [["in-0"]]
    assert client.arguments_of("send-offsets") == [["in-0", [("in", 0, 5)]], ["in-1", [("in", 1, 8)]]]


def test_at_least_once_commits_offsets_only_of_acknowledged_outputs(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH))
    with make_worker(client, tmp_path, Delivery.AT_LEAST_ONCE) as worker:
        worker.turn()
        assert calls(client) == ["send", "send", "commit-offsets"]
        client.never_acknowledges, client.polled = True, list(BATCH)
        worker.turn()
    assert calls(client)[3:] == ["send", "send", "discard", "seek", "seek"]
    expected = [
        ("invoke", "send"),
        ("info", "send"),
        ("invoke", "commit-offsets"),
        ("fail", "commit-offsets"),
    ]
    assert lines(tmp_path)[-4:] == expected  # the journal says that the offsets were not committed
    assert (worker.counts.committed, worker.counts.info) == (1, 1)


def test_at_most_once_sends_only_after_a_successful_commit(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH), fails={"commit-offsets": ErrorMeaning.RETRIABLE})
    with make_worker(client, tmp_path, Delivery.AT_MOST_ONCE) as worker:
        worker.turn()
        assert calls(client) == ["commit-offsets", "seek", "seek"]
        client.fails, client.polled = {}, list(BATCH)
        worker.turn()
    assert calls(client)[3:] == ["commit-offsets", "send", "send"]
    assert not client.arguments_of("plain")[0][0].retries


def test_idempotent_and_at_least_once_differ_only_in_their_producer(tmp_path: Path) -> None:
    for n, (delivery, policy, idempotent) in enumerate(
        (
            (Delivery.IDEMPOTENT, CORRECT, True),
            (Delivery.AT_LEAST_ONCE, CORRECT, False),
            (Delivery.IDEMPOTENT, Policy(idempotent=False), False),
        )
    ):
        (tmp_path / str(n)).mkdir()
        client = FakeClient()
        with make_worker(client, tmp_path / str(n), delivery, policy) as worker:
            worker.deliverer.open()
        assert client.arguments_of("plain")[0][0].idempotent is idempotent


def test_an_output_that_is_sent_outside_is_not_in_the_transaction(tmp_path: Path) -> None:
    client = FakeClient(polled=BATCH[:1])
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS, Policy(outside=frozenset({"echo"}))) as worker:
        worker.turn()
    assert client.arguments_of("send") == [["plain", "out", b"v"]]
    assert lines(tmp_path)[-4:] == [("invoke", "send"), ("ok", "send"), ("invoke", "txn"), ("ok", "txn")]


def test_the_defect_offsets_before_transaction_commits_them_first(tmp_path: Path) -> None:
    client = FakeClient(polled=BATCH[:1])
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS, Policy(offsets="before-transaction")) as worker:
        worker.turn()
    assert calls(client) == ["init", "commit-offsets", "begin", "send", "commit"]


def test_sums_are_restored_with_a_partition_and_change_with_a_transaction(tmp_path: Path) -> None:
    client = FakeClient(
        logs={("sums", 0): [FakeRecord(("sums", 0), 0, b"40"), FakeRecord(("sums", 0), 1, b"41")]}
    )
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS, stage=SUMS) as worker:
        worker.on_assigned([("in", 0)])
        assert client.arguments_of("read") == [[("sums", 0), Isolation.READ_COMMITTED]]
        for fails in ({}, {"commit": ErrorMeaning.ABORTABLE}, {}):
            client.fails, client.polled = fails, [FakeRecord(("in", 0), 4), FakeRecord(("in", 0), 5)]
            worker.turn()
    # The outcome of the failed commit is info, so the sum is read again from the topic, where it is 41.
    assert [value for _, _, value in client.arguments_of("send")] == [b"43", b"45", b"43"]
    assert len(client.arguments_of("read")) == 2


def test_an_aborted_transaction_does_not_change_the_sums(tmp_path: Path) -> None:
    client = FakeClient()
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS, stage=SUMS) as worker:
        worker.on_assigned([("in", 0)])
        for fails in ({"send-offsets": ErrorMeaning.ABORTABLE}, {}):
            client.fails, client.polled = fails, [FakeRecord(("in", 0), 4)]
            worker.turn()
    assert [value for _, _, value in client.arguments_of("send")] == [b"1", b"1"]
    assert len(client.arguments_of("read")) == 1


@pytest.mark.parametrize("delivery", [delivery for delivery in Delivery if steps(delivery, CORRECT)])
def test_a_zombie_step_comes_before_the_commit(delivery: Delivery) -> None:
    all_steps = steps(delivery, CORRECT)
    zombies = zombie_steps(delivery, CORRECT)
    assert zombies and set(zombies) <= set(all_steps)
    assert all_steps.index(zombies[-1]) < all_steps.index(WorkerStep.AFTER_COMMIT)


def test_a_replaced_worker_creates_no_new_consumer(tmp_path: Path) -> None:
    client = FakeClient()
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        first = worker.context.consumer
        worker._on_error(ClientError(ErrorMeaning.FENCED, "another has its group.instance.id"))
        worker.control.replaced = True
        worker.turn()
        assert worker.context.consumer is first
        worker.control.replaced = False
        worker.turn()
        assert worker.context.consumer is not first


def test_a_gained_partition_starts_at_the_committed_offset(tmp_path: Path) -> None:
    client = FakeClient(fails={"committed": ErrorMeaning.RETRIABLE})
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        stop_failing_after(2, "committed", worker, client)
        assert worker.on_assigned([("in", 1)]) == [PartitionOffset("in", 1, 0)]
    assert len(client.arguments_of("committed")) == 3


def test_a_fenced_consumer_returns_no_offsets_and_its_records_are_dropped(tmp_path: Path) -> None:
    client = FakeClient(polled=list(BATCH), fails={"committed": ErrorMeaning.FENCED})
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS) as worker:
        first = worker.context.consumer
        assert worker.on_assigned([("in", 0)]) == []
        worker.turn()
        assert worker.context.consumer is not first
    assert not client.arguments_of("begin") and lines(tmp_path) == []
