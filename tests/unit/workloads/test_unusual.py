"""Records of every shape, and transactions that are legal and seldom."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import orjson
import pytest

from harness.clients.interface import ErrorMeaning
from harness.clients.records import as_input
from harness.model.expectation import InputRecord
from harness.model.vocabulary import PAD_HEADER, TIME_HEADER, VALUE_HEADER
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.record.naming import Headers, digest
from harness.roles.control import Control
from tests.support.fake_client import FakeClient, FakeRecord
from workloads.envelope import ENVELOPE, deliver, letter
from workloads.loop.unusual import ExtraContents, UnusualShares
from workloads.loop.worker import Worker, WorkerSettings
from workloads.merge import MERGE
from workloads.model.padding import largest_bytes, padded
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import Output, WorkloadStage
from workloads.shop import SHOP
from workloads.sparse import SPARSE

TWO = [FakeRecord(("in", 0), 4), FakeRecord(("in", 1), 7)]
ECHO = WorkloadStage("s", ("in",), ("out",), lambda one: (Output("out", "echo", one.key, one.value),))
CARRIES = replace(
    ECHO,
    transform=lambda one: (Output("out", "echo", None, None, (("trace", b"a"), ("trace", None)), 1_000),),
    notes="notes",
)


class Letter(FakeRecord):
    """A record with headers of the run's own, and others."""

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
    """The journal of a worker after some turns."""
    with Journal(path / "w.jsonl", 0, JournalBegan("w")) as journal:
        told = WorkerSettings("b", "g", "id-1", 0, 10, 0.0, seed, policy, Delivery.TRANSACTIONS)
        settings = replace(told, shares=shares or UnusualShares(), txn_timeout_ms=100)
        worker = Worker(stage, settings, client, journal, Control(None))
        for _ in range(turns):
            client.given = client.given or list(TWO)
            worker.turn()
    return [orjson.loads(line) for line in (path / "w.jsonl").read_bytes().splitlines()]


def transactions(journal: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    return [line for line in journal if line.get("f") == "txn" and line["type"] == "invoke"]


def calls(client: FakeClient) -> list[str]:
    return [what[0] for what in client.did]


# records


def test_a_transform_is_given_a_records_headers_without_those_of_the_run() -> None:
    given = as_input(Letter(("in", 0), 4))
    assert given.headers == [("trace", b"a"), ("trace", None)]
    assert given.timestamp_ms == 9


def test_an_output_is_announced_by_the_digest_of_the_very_record_that_is_sent(tmp_path: Path) -> None:
    client = FakeClient(given=TWO[:1])
    (txn,) = transactions(work(client, tmp_path, stage=CARRIES))
    ((headers, timestamp_ms),) = client.records
    assert timestamp_ms == 1_000
    assert [content for name, content in headers if name == "trace"] == [b"a", None]
    announced = txn["sends"]
    assert isinstance(announced, list) and announced[0][2] == digest(None, None, headers, timestamp_ms)


@pytest.mark.parametrize("policy", [Policy(null_as_empty=True), Policy(drops_headers=True)])
def test_a_record_that_a_defect_spoils_is_not_the_one_that_was_announced(
    tmp_path: Path, policy: Policy
) -> None:
    client = FakeClient(given=TWO[:1])
    (txn,) = transactions(work(client, tmp_path, stage=CARRIES, policy=policy))
    ((headers, timestamp_ms),) = client.records
    ((_, _, value),) = client.named("send")
    announced = txn["sends"]
    assert isinstance(announced, list) and announced[0][2] != digest(None, value, headers, timestamp_ms)


def test_letters_have_every_shape_and_are_carried_on_whole() -> None:
    rng = Random(1)
    letters = [letter(rng, n) for n in range(500)]
    assert {None, b""} <= {one.key for one in letters} and {None, b""} <= {one.value for one in letters}
    named = [name for one in letters for name, _ in one.headers]
    contents = [content for one in letters for _, content in one.headers]
    assert {None, b""} <= set(contents) and len(named) > len(set(named))
    for one in letters:
        given = InputRecord("letters", one.key, one.value, 1, 7, one.headers, one.timestamp_ms or 0)
        delivered, receipt = deliver(given)
        assert (delivered.key, delivered.value) == (one.key, one.value)
        assert delivered.headers == (*one.headers, ("stamped", b"1/7"))
        assert delivered.timestamp_ms == given.timestamp_ms + 1 and receipt.timestamp_ms is None


def test_padding_makes_inputs_and_outputs_as_large_as_asked_and_nothing_else() -> None:
    large = padded(SHOP, 5_000)
    fed, plain = large.feed[0].make(Random(1), 0), SHOP.feed[0].make(Random(1), 0)
    assert fed._replace(headers=()) == plain
    ((name, pad),) = fed.headers
    assert name == PAD_HEADER and pad is not None
    assert len(fed.key or b"") + len(fed.value or b"") + len(pad) == 5_000
    given = InputRecord("purchases", fed.key, fed.value)
    outputs = large.stages[0].transform(given)
    assert [one._replace(headers=()) for one in outputs] == list(SHOP.stages[0].transform(given))
    assert all(PAD_HEADER in dict(one.headers) for one in outputs)
    assert padded(SHOP, 0) is SHOP


def test_limits_are_raised_where_records_need_it_alone() -> None:
    assert largest_bytes(0) is None and largest_bytes(900_000) is None
    assert (largest_bytes(921_600) or 0) > 921_600 + 10_000


# transactions


def test_a_transaction_covers_the_inputs_of_two_topics(tmp_path: Path) -> None:
    client = FakeClient(given=[FakeRecord(("in", 0), 4), FakeRecord(("other", 0), 7)])
    (txn,) = transactions(work(client, tmp_path, stage=replace(ECHO, reads=("in", "other"))))
    assert txn["claims"] == {"in/0": [4, 5], "other/0": [7, 8]}
    assert client.named("send-offsets") == [["id-1", [("in", 0, 5), ("other", 0, 8)]]]


def test_of_several_topics_a_run_must_show_a_transaction_over_both() -> None:
    class Sizes:
        workers, partitions, brokers, abort_share = 2, 3, 3, 0.02

    assert "several-topics" in {goal.name for goal in MERGE.spec(Sizes()).goals}
    assert "several-topics" not in {goal.name for goal in ENVELOPE.spec(Sizes()).goals}


@pytest.mark.parametrize("seed", range(4))
def test_unusual_transactions_claim_no_input_and_stand_before_those_of_the_batch(
    tmp_path: Path, seed: int
) -> None:
    client = FakeClient()
    done = transactions(
        work(client, tmp_path, stage=CARRIES, shares=UnusualShares(empty=1.0), turns=12, seed=seed)
    )
    preceding, batches = done[::2], done[1::2]
    assert all("claims" in one for one in batches) and not any("claims" in one for one in preceding)
    kinds = {tuple(send[0] for send in one.get("sends", ())) for one in preceding}  # type: ignore[attr-defined]
    assert kinds <= {(), ("notes",)}
    first = [("in", 0, 4), ("in", 1, 7)]
    assert all(
        offsets in (first, [("in", 0, 5), ("in", 1, 8)]) for _, offsets in client.named("send-offsets")
    )
    assert calls(client).count("commit") == 24


def test_without_a_topic_for_notes_there_is_no_output_that_comes_of_no_input() -> None:
    rng, shares = Random(1), UnusualShares(empty=1.0)
    assert {shares.draw_preceding(rng, None) for _ in range(50)} == {
        ExtraContents.NOTHING,
        ExtraContents.OFFSETS,
    }
    assert {shares.draw_preceding(rng, "notes") for _ in range(50)} == set(ExtraContents)
    assert UnusualShares().draw_preceding(rng, "notes") is None and not UnusualShares().overruns(rng)


def test_what_fails_beside_a_batch_takes_nothing_from_it(tmp_path: Path) -> None:
    client = FakeClient(fails={"commit": ErrorMeaning.FATAL})
    journal = work(client, tmp_path, shares=UnusualShares(empty=1.0))
    done = [one for one in journal if one.get("f") == "txn"]
    assert [one["type"] for one in done] == ["invoke", "info"] * 2
    assert [one["process"] for one in done] == [0, 0, 1_000, 1_000]
    assert calls(client).count("init") == 2 and calls(client)[-2:] == ["seek", "seek"]


def test_a_transaction_that_overruns_is_held_until_what_it_sent_is_decided(tmp_path: Path) -> None:
    client = FakeClient(given=TWO[:1])
    client.fails = {"commit": ErrorMeaning.FENCED}
    journal = work(client, tmp_path, shares=UnusualShares(overrun=1.0))
    assert calls(client)[:6] == ["init", "begin", "send", "send-offsets", "stable", "commit"]
    (end,) = [one for one in journal if one.get("f") == "txn" and one["type"] != "invoke"]
    assert (end["type"], end["fenced"]) == ("info", True)


def test_a_worker_that_cannot_ask_goes_on_all_the_same(tmp_path: Path) -> None:
    client = FakeClient(given=TWO[:1], fails={"stable": ErrorMeaning.RETRIABLE})
    journal = work(client, tmp_path, shares=UnusualShares(overrun=1.0))
    assert calls(client)[-1] == "commit"
    assert any("stable was to fail" in str(one.get("error")) for one in journal if one["type"] == "note")


def test_a_reading_that_leads_to_nothing_is_delivered_by_its_offset_alone(tmp_path: Path) -> None:
    client = FakeClient(given=[FakeRecord(("in", 0), 4, b"5")])
    (txn,) = transactions(work(client, tmp_path, stage=replace(SPARSE.stages[0], notes=None)))
    assert not txn["sends"] and txn["claims"] == {"in/0": [4, 5]}
    assert calls(client) == ["init", "begin", "send-offsets", "commit"]
