"""The loop and its deliveries, on a client without Kafka: what is done, in which order, and what is not."""

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

ECHO = WorkloadStage("s", ("in",), ("out",), lambda one: (Output("out", "echo", one.key, one.value),))
SUMS = replace(
    ECHO,
    transform=lambda one: (),
    aggregate=Aggregate("sums", lambda one: ((one.key or b"", 1),), lambda one: int(one.value or b"0")),
)
TWO = [FakeRecord(("in", 0), 4), FakeRecord(("in", 1), 7)]


@contextmanager
def worker(
    client: FakeClient, path: Path, delivery: Delivery, policy: Policy = CORRECT, stage: WorkloadStage = ECHO
) -> Iterator[Worker]:
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "g", "id-1", 0, 10, 0.0, 1, policy, delivery)
        yield Worker(stage, settings, client, journal, Control(None))


def lines(path: Path) -> list[tuple[str, str]]:
    """Type and kind of each line that is an operation."""
    told = [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]
    return [(line["type"], line["f"]) for line in told if "f" in line]


def calls(client: FakeClient) -> list[str]:
    return [what[0] for what in client.did if what[0] not in ("plain", "committed")]


def mended_after(times: int, call: str, one: Worker, client: FakeClient) -> None:
    """Have nothing fail any more once the worker has made that call so many times."""
    listen = one.control.listen

    def listened(timeout_s: float = 0.0) -> None:
        if len(client.named(call)) == times:
            client.fails = {}
        listen()

    one.control.listen = listened  # type: ignore[method-assign]


def test_a_transaction_holds_outputs_and_offsets(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO))
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        one.turn()
    assert calls(client) == ["init", "begin", "send", "send", "send-offsets", "commit"]
    assert client.named("send-offsets") == [["id-1", [("in", 0, 5), ("in", 1, 8)]]]
    assert one.counts.committed == 1 and one.counts.inputs == 2


@pytest.mark.parametrize("failure", [ErrorMeaning.FATAL, ErrorMeaning.FENCED, ErrorMeaning.ABORTABLE])
def test_a_transaction_that_cannot_begin_has_failed_and_another_producer_takes_over(
    failure: ErrorMeaning, tmp_path: Path
) -> None:
    client = FakeClient(given=list(TWO), fails={"begin": failure})
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        one.turn()
        assert lines(tmp_path)[-1] == ("fail", "txn") and not client.named("send")
        client.fails, client.given = {}, list(TWO)
        one.turn()
    assert (one.counts.failed, one.counts.committed) == (1, 1)
    assert len(client.named("init")) == (1 if failure is ErrorMeaning.ABORTABLE else 2)


def test_a_producer_whose_initialisation_failed_is_given_up_before_the_next_one_asks(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO), fails={"init": ErrorMeaning.FATAL})
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        mended_after(1, "init", one, client)
        one.turn()
    assert calls(client)[:3] == ["init", "discard", "init"] and one.counts.committed == 1


def test_who_was_replaced_takes_no_id_back(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO))
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        one.control.replaced = True
        one.turn()
    assert not client.named("init") and not client.named("send")


def test_a_pinned_producer_has_a_transaction_for_each_partition(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO))
    with worker(client, tmp_path, Delivery.PINNED) as one:
        one.on_assigned([("in", 0), ("in", 1)])
        one.turn()
        one.on_revoked([("in", 0)])
        one.on_assigned([("in", 0)])
    assert client.named("init") == [["in-0"], ["in-1"], ["in-0"]]
    assert client.named("discard") == [["in-0"]]
    assert client.named("send-offsets") == [["in-0", [("in", 0, 5)]], ["in-1", [("in", 1, 8)]]]


def test_at_least_once_moves_the_offsets_only_behind_what_was_acknowledged(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO))
    with worker(client, tmp_path, Delivery.AT_LEAST_ONCE) as one:
        one.turn()
        assert calls(client) == ["send", "send", "commit-offsets"]
        client.unanswered, client.given = True, list(TWO)
        one.turn()
    assert calls(client)[3:] == ["send", "send", "discard", "seek", "seek"]
    told = [("invoke", "send"), ("info", "send"), ("invoke", "commit-offsets"), ("fail", "commit-offsets")]
    assert lines(tmp_path)[-4:] == told  # the offsets stay, so whoever goes back to them is not at fault
    assert (one.counts.committed, one.counts.info) == (1, 1)


def test_at_most_once_sends_nothing_unless_the_offsets_are_known_to_have_moved(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO), fails={"commit-offsets": ErrorMeaning.RETRIABLE})
    with worker(client, tmp_path, Delivery.AT_MOST_ONCE) as one:
        one.turn()
        assert calls(client) == ["commit-offsets", "seek", "seek"]
        client.fails, client.given = {}, list(TWO)
        one.turn()
    assert calls(client)[3:] == ["commit-offsets", "send", "send"]
    assert not client.named("plain")[0][0].retries


def test_what_differs_between_the_two_baselines_is_the_producer_alone(tmp_path: Path) -> None:
    for n, (delivery, policy, idempotent) in enumerate(
        (
            (Delivery.IDEMPOTENT, CORRECT, True),
            (Delivery.AT_LEAST_ONCE, CORRECT, False),
            (Delivery.IDEMPOTENT, Policy(idempotent=False), False),
        )
    ):
        (tmp_path / str(n)).mkdir()
        client = FakeClient()
        with worker(client, tmp_path / str(n), delivery, policy) as one:
            one.deliverer.open()
        assert client.named("plain")[0][0].idempotent is idempotent


def test_an_output_that_is_sent_outside_is_not_in_the_transaction(tmp_path: Path) -> None:
    client = FakeClient(given=TWO[:1])
    with worker(client, tmp_path, Delivery.TRANSACTIONS, Policy(outside=frozenset({"echo"}))) as one:
        one.turn()
    assert client.named("send") == [["plain", "out", b"v"]]
    assert lines(tmp_path)[-4:] == [("invoke", "send"), ("ok", "send"), ("invoke", "txn"), ("ok", "txn")]


def test_offsets_that_are_committed_first_stand_before_the_transaction(tmp_path: Path) -> None:
    client = FakeClient(given=TWO[:1])
    with worker(client, tmp_path, Delivery.TRANSACTIONS, Policy(offsets="before-transaction")) as one:
        one.turn()
    assert calls(client) == ["init", "commit-offsets", "begin", "send", "commit"]


def test_sums_are_restored_with_their_partition_and_change_with_the_transaction(tmp_path: Path) -> None:
    client = FakeClient(
        kept={("sums", 0): [FakeRecord(("sums", 0), 0, b"40"), FakeRecord(("sums", 0), 1, b"41")]}
    )
    with worker(client, tmp_path, Delivery.TRANSACTIONS, stage=SUMS) as one:
        one.on_assigned([("in", 0)])
        assert client.named("read") == [[("sums", 0), Isolation.READ_COMMITTED]]
        for fails in ({}, {"commit": ErrorMeaning.ABORTABLE}, {}):
            client.fails, client.given = fails, [FakeRecord(("in", 0), 4), FakeRecord(("in", 0), 5)]
            one.turn()
    # The commit that failed is info: what stands in the topic is read again, and it is 41 there.
    assert [value for _, _, value in client.named("send")] == [b"43", b"45", b"43"]
    assert len(client.named("read")) == 2


def test_sums_that_an_abort_undid_are_as_they_were(tmp_path: Path) -> None:
    client = FakeClient()
    with worker(client, tmp_path, Delivery.TRANSACTIONS, stage=SUMS) as one:
        one.on_assigned([("in", 0)])
        for fails in ({"send-offsets": ErrorMeaning.ABORTABLE}, {}):
            client.fails, client.given = fails, [FakeRecord(("in", 0), 4)]
            one.turn()
    assert [value for _, _, value in client.named("send")] == [b"1", b"1"]
    assert len(client.named("read")) == 1


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_zombie_is_made_where_something_is_begun_and_not_yet_committed(delivery: Delivery) -> None:
    reached = steps(delivery, CORRECT)
    held = zombie_steps(delivery, CORRECT)
    assert held and set(held) <= set(reached)
    assert reached.index(held[-1]) < reached.index(WorkerStep.AFTER_COMMIT)


def test_a_worker_that_was_replaced_takes_no_new_consumer(tmp_path: Path) -> None:
    client = FakeClient()
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        first = one.context.consumer
        one._on_error(ClientError(ErrorMeaning.FENCED, "another has its group.instance.id"))
        one.control.replaced = True
        one.turn()
        assert one.context.consumer is first
        one.control.replaced = False
        one.turn()
        assert one.context.consumer is not first


def test_a_partition_begins_where_the_group_stands_once_that_is_known(tmp_path: Path) -> None:
    client = FakeClient(fails={"committed": ErrorMeaning.RETRIABLE})
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        mended_after(2, "committed", one, client)
        assert one.on_assigned([("in", 1)]) == [PartitionOffset("in", 1, 0)]
    assert len(client.named("committed")) == 3


def test_a_consumer_of_no_more_use_begins_nowhere_and_what_it_gave_is_dropped(tmp_path: Path) -> None:
    client = FakeClient(given=list(TWO), fails={"committed": ErrorMeaning.FENCED})
    with worker(client, tmp_path, Delivery.TRANSACTIONS) as one:
        first = one.context.consumer
        assert one.on_assigned([("in", 0)]) == []
        one.turn()
        assert one.context.consumer is not first
    assert not client.named("begin") and lines(tmp_path) == []
