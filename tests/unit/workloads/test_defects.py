"""The defects: which workload can have which, and what the loop then does wrong."""

from pathlib import Path

import pytest

from harness.clients.interface import ErrorMeaning
from harness.common.errors import UsageError
from tests.support.fake_client import FakeClient, FakeRecord
from tests.unit.workloads.test_loop import TWO, calls, lines, worker
from workloads.defects.registry import DEFECTS
from workloads.model.policy import Delivery
from workloads.registry import WORKLOADS


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_each_defect_has_a_workload_and_a_client_on_which_it_shows(name: str) -> None:
    defect = DEFECTS[name]
    assert [one.name for one in WORKLOADS.values() if defect.fits(one)] and defect.clients
    assert defect.anomalies


@pytest.mark.parametrize(
    ("defect", "workload", "words"),
    [
        ("acks-one", "shop", "choose --workload idempotent"),
        ("dead-letter-outside", "shop", "choose --workload orders"),
        ("read-uncommitted", "echo", "needs a workload with 2 stages or more"),
        # What cdc counts stands in its store: no worker restores it, and the defect would do nothing.
        ("state-past-commit", "cdc", "choose --workload sales"),
        ("wrong-pin", "shop", "choose --workload square"),
    ],
)
def test_a_defect_that_a_workload_cannot_have_is_refused_with_one_that_can(
    defect: str, workload: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        DEFECTS[defect].require(WORKLOADS[workload], "librdkafka", WORKLOADS.values())


def test_a_client_that_prevents_a_defect_is_refused() -> None:
    with pytest.raises(UsageError, match="choose --client librdkafka"):
        DEFECTS["swallow-send-error"].require(WORKLOADS["orders"], "java", WORKLOADS.values())


def test_wrong_pin_gives_a_partition_the_producer_of_another(tmp_path: Path) -> None:
    client = FakeClient()
    with worker(client, tmp_path, Delivery.PINNED, DEFECTS["wrong-pin"].policy) as one:
        one.on_assigned([("in", 0)])
        one.on_revoked([("in", 0)])
        one.on_assigned([("in", 1)])
        client.given = [FakeRecord(("in", 1), 7)]
        one.turn()
    assert client.named("discard") == []
    assert client.named("send-offsets") == [["in-0", [("in", 1, 8)]]]


def test_ignore_unknown_commit_goes_on_without_asking_where_the_group_stands(tmp_path: Path) -> None:
    for name, sought in ((None, 2), ("ignore-unknown-commit", 0)):
        folder = tmp_path / str(name)
        folder.mkdir()
        client = FakeClient(given=list(TWO), fails={"commit": ErrorMeaning.FATAL})
        policy = DEFECTS[name].policy if name else DEFECTS["wrong-pin"].policy  # of no matter here
        with worker(client, folder, Delivery.TRANSACTIONS, policy) as one:
            one.turn()
        assert lines(folder)[-1] == ("info", "txn")
        assert len(client.named("seek")) == sought


def test_swallow_send_error_commits_what_is_left(tmp_path: Path) -> None:
    policy = DEFECTS["swallow-send-error"].policy
    client = FakeClient(given=list(TWO), fails={"send": ErrorMeaning.ABORTABLE})
    with worker(client, tmp_path, Delivery.TRANSACTIONS, policy) as one:
        one.turn()
    assert calls(client)[-2:] == ["send-offsets", "commit"]
    assert lines(tmp_path)[-1] == ("ok", "txn")
