"""The defects: the workloads that can have them, and the errors that they cause in the loop."""

from pathlib import Path

import pytest

from harness.clients.interface import ErrorMeaning
from harness.common.errors import UsageError
from tests.support.fake_client import FakeClient, FakeRecord
from tests.unit.workloads.test_loop import BATCH, calls, lines, make_worker
from workloads.defects import DEFECTS
from workloads.model.policy import Delivery
from workloads.registry import WORKLOADS


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_each_defect_has_a_workload_and_a_client_with_which_it_appears(name: str) -> None:
    defect = DEFECTS[name]
    assert [workload.name for workload in WORKLOADS.values() if defect.fits(workload)] and defect.clients
    assert defect.anomalies


@pytest.mark.parametrize(
    ("defect", "workload", "message"),
    [
        ("acks-one", "shop", "choose --workload idempotent"),
        ("dead-letter-outside", "shop", "choose --workload orders"),
        ("read-uncommitted", "echo", "needs a workload with 2 stages or more"),
        # The database has the counts of cdc, so no worker restores them, and the defect would have no effect.
        ("state-past-commit", "cdc", "choose --workload sales"),
        ("wrong-pin", "shop", "choose --workload square"),
    ],
)
def test_an_impossible_defect_is_refused_and_a_possible_workload_is_named(
    defect: str, workload: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        DEFECTS[defect].require(WORKLOADS[workload], "librdkafka", WORKLOADS.values())


def test_a_client_that_prevents_a_defect_is_refused() -> None:
    with pytest.raises(UsageError, match="choose --client librdkafka"):
        DEFECTS["swallow-send-error"].require(WORKLOADS["orders"], "java", WORKLOADS.values())


def test_wrong_pin_gives_a_partition_the_producer_of_another(tmp_path: Path) -> None:
    client = FakeClient()
    with make_worker(client, tmp_path, Delivery.PINNED, DEFECTS["wrong-pin"].policy) as worker:
        worker.on_assigned([("in", 0)])
        worker.on_revoked([("in", 0)])
        worker.on_assigned([("in", 1)])
        client.polled = [FakeRecord(("in", 1), 7)]
        worker.turn()
    assert client.arguments_of("discard") == []
    assert client.arguments_of("send-offsets") == [["in-0", [("in", 1, 8)]]]


def test_ignore_unknown_commit_does_not_seek_to_the_committed_offsets(tmp_path: Path) -> None:
    for name, seeks in ((None, 2), ("ignore-unknown-commit", 0)):
        folder = tmp_path / str(name)
        folder.mkdir()
        client = FakeClient(polled=list(BATCH), fails={"commit": ErrorMeaning.FATAL})
        policy = (
            DEFECTS[name].policy if name else DEFECTS["wrong-pin"].policy
        )  # another defect, which has no effect here
        with make_worker(client, folder, Delivery.TRANSACTIONS, policy) as worker:
            worker.turn()
        assert lines(folder)[-1] == ("info", "txn")
        assert len(client.arguments_of("seek")) == seeks


def test_swallow_send_error_commits_the_rest_of_the_transaction(tmp_path: Path) -> None:
    policy = DEFECTS["swallow-send-error"].policy
    client = FakeClient(polled=list(BATCH), fails={"send": ErrorMeaning.ABORTABLE})
    with make_worker(client, tmp_path, Delivery.TRANSACTIONS, policy) as worker:
        worker.turn()
    assert calls(client)[-2:] == ["send-offsets", "commit"]
    assert lines(tmp_path)[-1] == ("ok", "txn")
