"""A relay and a consumer by key, on a client without Kafka: what is published, marked and applied, and how often."""

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
from workloads.loop.keyed import KeyedDelivery
from workloads.loop.relay import Relay
from workloads.loop.worker import Worker, WorkerSettings
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import Output, WorkloadStage
from workloads.outbox import APPLIED, EVENTS, OUTBOX, OUTBOX_WORKLOAD, order

STAGE = WorkloadStage("relay", ("rows",), ("out",), lambda one: (Output("out", "event", one.key, one.value),))
ROWS = [TableRow("f:0:0", b"k", b"one", 4), TableRow("f:0:1", b"k", b"two", 7)]


@contextmanager
def relay(client: FakeClient, inputs: FakeInputs, path: Path, policy: Policy = CORRECT) -> Iterator[Relay]:
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "", "id-1", 0, 10, 0.0, 1, policy, Delivery.RELAYED)
        one = Relay(STAGE, settings, client, journal, Control(None), inputs)
        yield one


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]


def test_rows_are_marked_once_they_are_published(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs(list(ROWS))
    with relay(client, inputs, tmp_path) as one:
        one.turn()
    assert [content for _, _, content in client.named("send")] == [b"one", b"two"]
    assert client.named("commit") and not client.named("send-offsets")
    assert inputs.did == [("take",), ("mark", 4, 7), ("commit",)]
    assert all(row.done for row in inputs.rows)
    assert (one.counts.committed, one.counts.inputs) == (1, 2)


def test_what_a_relay_was_given_and_sends_stands_in_its_journal_and_no_range(tmp_path: Path) -> None:
    with relay(FakeClient(), FakeInputs(list(ROWS)), tmp_path) as one:
        one.turn()
    poll, txn = (next(line for line in lines(tmp_path) if line.get("f") == f) for f in ("poll", "txn"))
    assert poll["records"] == {"rows/0": [[4, "f:0:0"], [7, "f:0:1"]]}
    assert [send[3:] for send in txn["sends"]] == [["rows/0", 4], ["rows/0", 7]]  # type: ignore[attr-defined]
    assert not txn.get("claims")


def test_rows_whose_transaction_failed_are_pending_again(tmp_path: Path) -> None:
    client, inputs = FakeClient(fails={"send": ErrorMeaning.ABORTABLE}), FakeInputs(list(ROWS))
    with relay(client, inputs, tmp_path) as one:
        one.turn()
    assert not any(row.done for row in inputs.rows) and ("mark", 4, 7) not in inputs.did
    assert one.counts.failed == 1


def test_rows_that_could_not_be_marked_are_published_again(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs(list(ROWS), fails={"mark"})
    with relay(client, inputs, tmp_path) as one:
        one.turn()
        inputs.fails.clear()
        one.turn()
    assert len(client.named("send")) == 4
    assert all(row.done for row in inputs.rows)


def test_a_relay_outlives_a_database_that_does_not_answer(tmp_path: Path) -> None:
    inputs = FakeInputs(list(ROWS), fails={"take"})
    with relay(FakeClient(), inputs, tmp_path) as one:
        one.turn()
    assert lines(tmp_path)[-2]["error"] == "take was to fail"


def test_a_relay_that_marks_first_loses_what_it_does_not_publish(tmp_path: Path) -> None:
    client, inputs = FakeClient(fails={"send": ErrorMeaning.ABORTABLE}), FakeInputs(list(ROWS))
    with relay(client, inputs, tmp_path, Policy(marks_before_send=True)) as one:
        one.turn()
    assert all(row.done for row in inputs.rows) and not client.named("commit")


def test_a_relay_that_takes_what_lies_beyond_misses_what_commits_late(tmp_path: Path) -> None:
    client, inputs = FakeClient(), FakeInputs([ROWS[1]])
    with relay(client, inputs, tmp_path, Policy(takes_after_last=True)) as one:
        one.turn()
        inputs.rows.insert(0, ROWS[0])
        one.turn()
    assert [content for _, _, content in client.named("send")] == [b"two"]
    assert inputs.beyond == 7


class Event(FakeRecord):
    """An event that tells of a row."""

    row = 4

    def headers(self) -> Headers | None:
        return [(SOURCE_HEADER, f"rows/0/{self.row}".encode())]


def consume(tmp_path: Path, *batches: Sequence[FakeRecord]) -> list[str]:
    """The sources of what stands in the table after these polls."""
    kind = Sqlite()
    stage = WorkloadStage(
        "consumer",
        ("out",),
        ("applied",),
        lambda one: (Output("applied", "applied", one.key, one.value),),
        delivery=Delivery.KEYED,
    )
    with kind.provide(DatabaseParts(tmp_path, None, lambda: 0)):  # type: ignore[arg-type]
        store = kind.connect(kind.address(tmp_path))
    client = FakeClient()
    with Journal(tmp_path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "g", None, 0, 10, 0.0, 1, CORRECT, Delivery.KEYED)
        one = Worker(stage, settings, client, journal, Control(None), store)
        assert isinstance(one.deliverer, KeyedDelivery)
        for batch in batches:
            client.given = list(batch)
            one.turn()
    assert one.counts.committed == len(batches)
    return [effect.sources for _, effect in store.effects("applied")]


def test_a_row_is_applied_once_however_often_it_is_told_of(tmp_path: Path) -> None:
    first, again = Event(("in", 0), 0), Event(("in", 1), 5)
    assert consume(tmp_path, [first, again], [again]) == ["rows/0/4"]
    acks = [line["acks"] for line in lines(tmp_path) if line.get("f") == "send" and line["type"] == "ok"]
    assert acks == [[[0, None], [-1, None]], [[-1, None]]]


def test_what_a_row_must_lead_to_is_stated_of_the_row_alone() -> None:
    expectation = OUTBOX_WORKLOAD.expectation()
    fed = order(Random(1), 0)
    row = InputRecord(OUTBOX, fed.key, fed.value, 0, 7)
    event, applied = expectation.expected_outputs(row)
    assert (event.stage, event.topic, event.intermediate_topic) == ("relay", EVENTS, None)
    assert (applied.stage, applied.topic, applied.intermediate_topic) == ("consumer", APPLIED, EVENTS)
    (out,) = OUTBOX_WORKLOAD.stages[0].transform(row)
    held = digest(out.key, out.value, output_headers("", "applied", [(OUTBOX, 0, 7)]))
    assert applied.digest(0, 7) == held
    assert not list(expectation.expected_outputs(row._replace(topic=EVENTS, value=out.value)))


def test_the_relay_promises_less_than_the_pipeline_and_leaves_no_row() -> None:
    facts = OUTBOX_WORKLOAD.spec(Options())
    relays, consumer = facts.stages
    assert facts.guarantee is Guarantee.EXACTLY_ONCE and relays.guarantee == Guarantee.AT_LEAST_ONCE.value
    assert (
        relays.group is None
        and relays.offset_tracking is OffsetTracking.EACH
        and consumer.offset_tracking is OffsetTracking.GROUP
    )
    assert [topic.name for topic in facts.topics] == [EVENTS]
    assert [table.name for table in facts.input_tables] == [OUTBOX]
    assert set(relays.transactional_ids) == set(relays.workers)


@pytest.mark.parametrize(
    ("change", "words"),
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
def test_a_stage_promises_what_can_be_judged(
    change: Callable[..., tuple[WorkloadStage, WorkloadStage]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        replace(OUTBOX_WORKLOAD, stages=change(*OUTBOX_WORKLOAD.stages))


def test_by_which_key_a_store_is_written_once_is_said_of_a_stage() -> None:
    with pytest.raises(ValueError, match="set the delivery store-by-key on one stage, not on the workload"):
        replace(OUTBOX_WORKLOAD, delivery=Delivery.KEYED)
