"""A relay and a consumer that delivers by key, on a client without Kafka: rows are published, marked and applied."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import orjson
import pytest

from harness.clients.interface import ErrorMeaning
from harness.databases.interface import DatabaseParts, TableRow
from harness.databases.sqlite import Sqlite
from harness.model.expectation import InputRecord
from harness.model.vocabulary import SOURCE_HEADER, Guarantee, OffsetTracking
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers, digest, output_headers
from harness.roles.control import Control
from harness.settings.options import Options
from tests.support.fake_client import FakeClient, FakeRecord
from tests.support.fake_inputs import FakeInputs
from workloads.loop.relay import Relay
from workloads.loop.stored import KeyedDelivery
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import Output, WorkloadStage
from workloads.outbox import APPLIED, EVENTS, OUTBOX, OUTBOX_WORKLOAD, order

STAGE = WorkloadStage(
    "relay", ("rows",), ("out",), lambda record: (Output("out", "event", record.key, record.value),)
)
ROWS = [TableRow("f:0:0", b"k", b"one", 4), TableRow("f:0:1", b"k", b"two", 7)]


@contextmanager
def make_relay(
    client: FakeClient, inputs: FakeInputs, path: Path, policy: Policy = CORRECT
) -> Iterator[Relay]:
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "", "id-1", 0, 10, 0.0, 1, policy, Delivery.RELAYED)
        yield Relay(STAGE, settings, client, journal, Control(None), inputs)


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]


def test_rows_are_marked_after_they_are_published(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs(list(ROWS))
    with make_relay(client, inputs, tmp_path) as relay:
        relay.turn()
    assert [content for _, _, content in client.arguments_of("send")] == [b"one", b"two"]
    assert client.arguments_of("commit") and not client.arguments_of("send-offsets")
    assert inputs.calls == [("take",), ("mark", 4, 7), ("commit",)]
    assert all(row.done for row in inputs.rows)
    assert (relay.counts.committed, relay.counts.inputs) == (1, 2)


def test_the_journal_has_the_rows_and_sends_of_a_relay_and_no_claims(tmp_path: Path) -> None:
    with make_relay(FakeClient(), FakeInputs(list(ROWS)), tmp_path) as relay:
        relay.turn()
    poll, txn = (next(line for line in lines(tmp_path) if line.get("f") == f) for f in ("poll", "txn"))
    assert poll["records"] == {"rows/0": [[4, "f:0:0"], [7, "f:0:1"]]}
    assert [send[3:] for send in txn["sends"]] == [["rows/0", 4], ["rows/0", 7]]  # type: ignore[attr-defined]
    assert not txn.get("claims")


def test_rows_whose_transaction_failed_are_pending_again(tmp_path: Path) -> None:
    client, inputs = FakeClient(fails={"send": ErrorMeaning.ABORTABLE}), FakeInputs(list(ROWS))
    with make_relay(client, inputs, tmp_path) as relay:
        relay.turn()
    assert not any(row.done for row in inputs.rows) and ("mark", 4, 7) not in inputs.calls
    assert relay.counts.failed == 1


def test_rows_that_could_not_be_marked_are_published_again(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs(list(ROWS), fails={"mark"})
    with make_relay(client, inputs, tmp_path) as relay:
        relay.turn()
        inputs.fails.clear()
        relay.turn()
    assert len(client.arguments_of("send")) == 4
    assert all(row.done for row in inputs.rows)


def test_a_relay_continues_after_an_error_of_the_database(tmp_path: Path) -> None:
    inputs = FakeInputs(list(ROWS), fails={"take"})
    with make_relay(FakeClient(), inputs, tmp_path) as relay:
        relay.turn()
    assert lines(tmp_path)[-2]["error"] == "take was to fail"


def test_a_relay_that_marks_before_it_sends_loses_rows(tmp_path: Path) -> None:
    client, inputs = FakeClient(fails={"send": ErrorMeaning.ABORTABLE}), FakeInputs(list(ROWS))
    with make_relay(client, inputs, tmp_path, Policy(marks_before_send=True)) as relay:
        relay.turn()
    assert all(row.done for row in inputs.rows) and not client.arguments_of("commit")


def test_a_relay_that_takes_rows_above_the_last_misses_late_commits(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs([ROWS[1]])
    with make_relay(client, inputs, tmp_path, Policy(takes_after_last=True)) as relay:
        relay.turn()
        inputs.rows.insert(0, ROWS[0])
        relay.turn()
    assert [content for _, _, content in client.arguments_of("send")] == [b"two"]
    assert inputs.last_position == 7


class Event(FakeRecord):
    """An event whose source is an outbox row."""

    row = 4

    def headers(self) -> Headers | None:
        return [(SOURCE_HEADER, f"rows/0/{self.row}".encode())]


def consume(tmp_path: Path, *batches: Sequence[FakeRecord]) -> list[str]:
    """Consume these batches, and return the sources of the rows that are then in the table."""
    kind = Sqlite()
    stage = WorkloadStage(
        "consumer",
        ("out",),
        ("applied",),
        lambda record: (Output("applied", "applied", record.key, record.value),),
        delivery=Delivery.KEYED,
    )
    with kind.provide(DatabaseParts(tmp_path, None, lambda: 0)):  # type: ignore[arg-type]
        store = kind.connect(kind.address(tmp_path))
    client = FakeClient()
    with Journal(tmp_path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "g", None, 0, 10, 0.0, 1, CORRECT, Delivery.KEYED)
        worker = Worker(stage, settings, client, journal, Control(None), store)
        assert isinstance(worker.deliverer, KeyedDelivery)
        for batch in batches:
            client.polled = list(batch)
            worker.turn()
    assert worker.counts.committed == len(batches)
    return [effect.sources for _, effect in store.effects("applied")]


def test_a_row_is_applied_once_if_several_events_come_from_it(tmp_path: Path) -> None:
    first, again = Event(("in", 0), 0), Event(("in", 1), 5)
    assert consume(tmp_path, [first, again], [again]) == ["rows/0/4"]
    acks = [line["acks"] for line in lines(tmp_path) if line.get("f") == "send" and line["type"] == "ok"]
    assert acks == [[[0, None], [-1, None]], [[-1, None]]]


def test_all_expected_outputs_are_those_of_the_outbox_row() -> None:
    expectation = OUTBOX_WORKLOAD.expectation()
    content = order(Random(1), 0)
    row = InputRecord(OUTBOX, content.key, content.value, 0, 7)
    event, applied = expectation.expected_outputs(row)
    assert (event.stage, event.topic, event.intermediate_topic) == ("relay", EVENTS, None)
    assert (applied.stage, applied.topic, applied.intermediate_topic) == ("consumer", APPLIED, EVENTS)
    (out,) = OUTBOX_WORKLOAD.stages[0].transform(row)
    stored = digest(out.key, out.value, output_headers("", "applied", [(OUTBOX, 0, 7)]))
    assert applied.digest(0, 7) == stored
    assert not list(expectation.expected_outputs(row._replace(topic=EVENTS, value=out.value)))


def test_the_relay_promises_at_least_once_and_the_pipeline_exactly_once() -> None:
    spec = OUTBOX_WORKLOAD.spec(Options())
    relays, consumer = spec.stages
    assert spec.guarantee is Guarantee.EXACTLY_ONCE and relays.guarantee == Guarantee.AT_LEAST_ONCE.value
    assert (
        relays.group is None
        and relays.offset_tracking is OffsetTracking.EACH
        and consumer.offset_tracking is OffsetTracking.GROUP
    )
    assert [topic.name for topic in spec.topics] == [EVENTS]
    assert [table.name for table in spec.input_tables] == [OUTBOX]
    assert set(relays.transactional_ids) == set(relays.workers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda relay, consumer: (relay, replace(consumer, delivery=None)), "can repeat its outputs"),
        (
            lambda relay, consumer: (relay, replace(consumer, reads=("fed",))),
            "every topic that it reads must be written by a stage",
        ),
        (
            lambda relay, consumer: (replace(relay, guarantee=Guarantee.AT_MOST_ONCE), consumer),
            "promises at-most-once in a workload that promises exactly-once",
        ),
    ],
)
def test_a_stage_cannot_promise_more_or_less_than_can_be_checked(
    change: Callable[..., tuple[WorkloadStage, WorkloadStage]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(OUTBOX_WORKLOAD, stages=change(*OUTBOX_WORKLOAD.stages))


def test_the_delivery_by_key_is_set_on_a_stage_and_not_on_the_workload() -> None:
    with pytest.raises(ValueError, match="set the delivery store-by-key on one stage, not on the workload"):
        replace(OUTBOX_WORKLOAD, delivery=Delivery.KEYED)
