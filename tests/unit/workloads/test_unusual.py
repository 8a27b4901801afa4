"""Records with unusual contents, and unusual but legal transactions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import orjson
import pytest

from harness.clients.interface import ErrorMeaning, as_input
from harness.model.expectation import InputRecord
from harness.model.vocabulary import PAD_HEADER, TIME_HEADER, VALUE_HEADER
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers, digest
from harness.roles.control import Control
from tests.support.fake_client import FakeClient, FakeRecord
from workloads.envelope import ENVELOPE, deliver, letter
from workloads.loop.transactional import ExtraContents, UnusualShares
from workloads.loop.worker import Worker, WorkerSettings
from workloads.merge import MERGE
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import Output, WorkloadStage, largest_bytes
from workloads.shop import SHOP
from workloads.sparse import SPARSE

BATCH = [FakeRecord(("in", 0), 4), FakeRecord(("in", 1), 7)]
ECHO = WorkloadStage(
    "s", ("in",), ("out",), lambda record: (Output("out", "echo", record.key, record.value),)
)
WITH_HEADERS = replace(
    ECHO,
    transform=lambda record: (Output("out", "echo", None, None, (("trace", b"a"), ("trace", None)), 1_000),),
    notes="notes",
)


class Letter(FakeRecord):
    """A record with headers of the run, and with other headers."""

    def headers(self) -> Headers:
        return [(VALUE_HEADER, b"f:1:0"), ("trace", b"a"), (TIME_HEADER, b"9"), ("trace", None)]

    def timestamp(self) -> tuple[int, int]:
        return (1, 9)


def work(
    client: FakeClient,
    path: Path,
    *,
    stage: WorkloadStage = ECHO,
    policy: Policy = CORRECT,
    shares: UnusualShares | None = None,
    turns: int = 1,
    seed: int = 1,
) -> list[dict[str, object]]:
    """The events in the journal of a worker after some turns."""
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        settings = WorkerSettings("b", "g", "id-1", 0, 10, 0.0, seed, policy, Delivery.TRANSACTIONS)
        settings = replace(settings, shares=shares or UnusualShares(), txn_timeout_ms=100)
        worker = Worker(stage, settings, client, journal, Control(None))
        for _ in range(turns):
            client.polled = client.polled or list(BATCH)
            worker.turn()
    return [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]


def transactions(journal: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    return [line for line in journal if line.get("f") == "txn" and line["type"] == "invoke"]


def calls(client: FakeClient) -> list[str]:
    return [what[0] for what in client.calls]


# records


def test_a_transform_gets_the_headers_without_those_of_the_run() -> None:
    record = as_input(Letter(("in", 0), 4))
    assert record.headers == [("trace", b"a"), ("trace", None)]
    assert record.timestamp_ms == 9


def test_the_journal_has_the_digest_of_the_record_that_is_sent(tmp_path: Path) -> None:
    client = FakeClient(polled=BATCH[:1])
    (txn,) = transactions(work(client, tmp_path, stage=WITH_HEADERS))
    ((headers, timestamp_ms),) = client.records
    assert timestamp_ms == 1_000
    assert [content for name, content in headers if name == "trace"] == [b"a", None]
    sends = txn["sends"]
    assert isinstance(sends, list) and sends[0][2] == digest(None, None, headers, timestamp_ms)


@pytest.mark.parametrize("policy", [Policy(null_as_empty=True), Policy(drops_headers=True)])
def test_a_defect_sends_another_record_than_the_journal_has(tmp_path: Path, policy: Policy) -> None:
    client = FakeClient(polled=BATCH[:1])
    (txn,) = transactions(work(client, tmp_path, stage=WITH_HEADERS, policy=policy))
    ((headers, timestamp_ms),) = client.records
    ((_, _, value),) = client.arguments_of("send")
    sends = txn["sends"]
    assert isinstance(sends, list) and sends[0][2] != digest(None, value, headers, timestamp_ms)


def test_letters_have_all_kinds_of_contents_and_are_copied_completely() -> None:
    rng = Random(1)
    letters = [letter(rng, n) for n in range(500)]
    assert {None, b""} <= {sent.key for sent in letters} and {None, b""} <= {sent.value for sent in letters}
    names = [name for sent in letters for name, _ in sent.headers]
    contents = [content for sent in letters for _, content in sent.headers]
    assert {None, b""} <= set(contents) and len(names) > len(set(names))
    for sent in letters:
        record = InputRecord("letters", sent.key, sent.value, 1, 7, sent.headers, sent.timestamp_ms or 0)
        delivered, receipt = deliver(record)
        assert (delivered.key, delivered.value) == (sent.key, sent.value)
        assert delivered.headers == (*sent.headers, ("stamped", b"1/7"))
        assert delivered.timestamp_ms == record.timestamp_ms + 1 and receipt.timestamp_ms is None


def test_padding_only_adds_a_header_to_inputs_and_outputs() -> None:
    large = SHOP.padded(5_000)
    padded_record, plain = large.feed[0].make(Random(1), 0), SHOP.feed[0].make(Random(1), 0)
    assert padded_record._replace(headers=()) == plain
    ((name, pad),) = padded_record.headers
    assert name == PAD_HEADER and pad is not None
    assert len(padded_record.key or b"") + len(padded_record.value or b"") + len(pad) == 5_000
    record = InputRecord("purchases", padded_record.key, padded_record.value)
    outputs = large.stages[0].transform(record)
    assert [output._replace(headers=()) for output in outputs] == list(SHOP.stages[0].transform(record))
    assert all(PAD_HEADER in dict(output.headers) for output in outputs)
    assert SHOP.padded(0) is SHOP


def test_size_limits_are_raised_only_for_large_records() -> None:
    assert largest_bytes(0) is None and largest_bytes(900_000) is None
    assert (largest_bytes(921_600) or 0) > 921_600 + 10_000


# transactions


def test_a_transaction_covers_the_inputs_of_two_topics(tmp_path: Path) -> None:
    client = FakeClient(polled=[FakeRecord(("in", 0), 4), FakeRecord(("other", 0), 7)])
    (txn,) = transactions(work(client, tmp_path, stage=replace(ECHO, reads=("in", "other"))))
    assert txn["claims"] == {"in/0": [4, 5], "other/0": [7, 8]}
    assert client.arguments_of("send-offsets") == [["id-1", [("in", 0, 5), ("other", 0, 8)]]]


def test_a_workload_with_two_input_topics_needs_a_transaction_over_both() -> None:
    class Sizes:
        workers, partitions, brokers, abort_share = 2, 3, 3, 0.02

    assert "several-topics" in {goal.name for goal in MERGE.spec(Sizes()).goals}
    assert "several-topics" not in {goal.name for goal in ENVELOPE.spec(Sizes()).goals}


@pytest.mark.parametrize("seed", range(4))
def test_extra_transactions_claim_no_input_and_come_before_those_of_the_batch(
    tmp_path: Path, seed: int
) -> None:
    client = FakeClient()
    txns = transactions(
        work(client, tmp_path, stage=WITH_HEADERS, shares=UnusualShares(empty=1.0), turns=12, seed=seed)
    )
    preceding, batches = txns[::2], txns[1::2]
    assert all("claims" in txn for txn in batches) and not any("claims" in txn for txn in preceding)
    kinds = {tuple(send[0] for send in txn.get("sends", ())) for txn in preceding}  # type: ignore[attr-defined]
    assert kinds <= {(), ("notes",)}
    first = [("in", 0, 4), ("in", 1, 7)]
    assert all(
        offsets in (first, [("in", 0, 5), ("in", 1, 8)]) for _, offsets in client.arguments_of("send-offsets")
    )
    assert calls(client).count("commit") == 24


def test_without_a_topic_for_notes_no_output_is_without_an_input() -> None:
    rng, shares = Random(1), UnusualShares(empty=1.0)
    assert {shares.draw_preceding(rng, None) for _ in range(50)} == {
        ExtraContents.NOTHING,
        ExtraContents.OFFSETS,
    }
    assert {shares.draw_preceding(rng, "notes") for _ in range(50)} == set(ExtraContents)
    assert UnusualShares().draw_preceding(rng, "notes") is None and not UnusualShares().overruns(rng)


def test_a_failed_extra_transaction_does_not_prevent_that_of_the_batch(tmp_path: Path) -> None:
    client = FakeClient(fails={"commit": ErrorMeaning.FATAL})
    journal = work(client, tmp_path, shares=UnusualShares(empty=1.0))
    events = [line for line in journal if line.get("f") == "txn"]
    assert [event["type"] for event in events] == ["invoke", "info"] * 2
    assert [event["process"] for event in events] == [0, 0, 1_000, 1_000]
    assert calls(client).count("init") == 2 and calls(client)[-2:] == ["seek", "seek"]


def test_an_overrunning_transaction_is_held_until_it_is_aborted(tmp_path: Path) -> None:
    client = FakeClient(polled=BATCH[:1])
    client.fails = {"commit": ErrorMeaning.FENCED}
    journal = work(client, tmp_path, shares=UnusualShares(overrun=1.0))
    assert calls(client)[:6] == ["init", "begin", "send", "send-offsets", "stable", "commit"]
    (end,) = [line for line in journal if line.get("f") == "txn" and line["type"] != "invoke"]
    assert (end["type"], end["fenced"]) == ("info", True)


def test_a_worker_continues_if_the_last_stable_offset_cannot_be_read(tmp_path: Path) -> None:
    client = FakeClient(polled=BATCH[:1], fails={"stable": ErrorMeaning.RETRIABLE})
    journal = work(client, tmp_path, shares=UnusualShares(overrun=1.0))
    assert calls(client)[-1] == "commit"
    assert any("stable was to fail" in str(line.get("error")) for line in journal if line["type"] == "note")


def test_a_transaction_without_outputs_has_only_the_offsets(tmp_path: Path) -> None:
    client = FakeClient(polled=[FakeRecord(("in", 0), 4, b"5")])
    (txn,) = transactions(work(client, tmp_path, stage=replace(SPARSE.stages[0], notes=None)))
    assert not txn["sends"] and txn["claims"] == {"in/0": [4, 5]}
    assert calls(client) == ["init", "begin", "send-offsets", "commit"]
