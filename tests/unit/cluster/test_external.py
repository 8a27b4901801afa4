from collections.abc import Collection

import pytest

from harness.cluster import ClusterSpec, PartitionView, admin
from harness.cluster.admin import RequestRefused
from harness.cluster.connecting import parse_addresses
from harness.cluster.external import ExternalCluster
from harness.cluster.forbidden import explain_refusal
from harness.common.errors import FaultFailed, UsageError
from harness.network import Cut
from harness.wire.protocol import Address, Target
from harness.wire.security import Security


def test_servers_are_read_with_their_ports() -> None:
    told = parse_addresses("kafka-1:9092, [::1]:9093", Security("SSL"))
    assert [(one.host, one.port, one.security.protocol) for one in told] == [
        ("kafka-1", 9092, "SSL"),
        ("::1", 9093, "SSL"),
    ]
    assert str(told[1]) == "[::1]:9093"


@pytest.mark.parametrize("text", ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:99999", "a:1,b"])
def test_what_names_no_server_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="bootstrap must be HOST:PORT"):
        parse_addresses(text, Security())


@pytest.mark.parametrize(
    ("code", "kind"), [(29, "topic"), (30, "group"), (53, "transactional-id"), (31, "topic")]
)
def test_what_acls_forbid_is_told_with_what_allows_it(code: int, kind: str) -> None:
    told = str(explain_refusal(RequestRefused("asking", code), "Create", "team.x-1", "team.x"))
    assert f"--{kind} team.x- --resource-pattern-type prefixed" in told


def test_a_cluster_that_deletes_no_topics_is_not_asked_again() -> None:
    assert "delete.topic.enable=false" in str(
        explain_refusal(RequestRefused("deleting", 73), "Delete", "x", "x")
    )


def test_an_error_that_may_pass_is_no_refusal() -> None:
    assert explain_refusal(RequestRefused("asking", 15), "Describe", "x", "x") is None


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> ExternalCluster:
    """On a cluster where a stranger's topic has no leader, and one of the run's lacks a replica."""
    well, lacking = PartitionView(1, (1, 2), (1, 2), "id"), PartitionView(1, (1, 2), (1,), "id")
    lost = PartitionView(-1, (1, 2), (), "id")
    all_topics = {
        "fencepost-a-in": {0: well, 1: lacking},
        "theirs": {0: lost},
        "__consumer_offsets": {0: well},
    }

    def fetch_view(at: object, timeout_s: float, topics: Collection[str]) -> admin.BrokerView:
        known = {topic: all_topics[topic] for topic in topics if topic in all_topics}
        return admin.BrokerView((1, 2), known, {}, {1: ("kafka", 9092)}, 1)

    def list_offsets(
        at: object, places: Collection[tuple[str, int]], timestamp: int, isolation: int
    ) -> dict[tuple[str, int], int]:
        told = {admin.EARLIEST: 0, admin.LATEST: 90 if isolation else 100}
        return dict.fromkeys(places, told[timestamp])

    monkeypatch.setattr(admin, "fetch_view", fetch_view)
    monkeypatch.setattr(admin, "list_offsets", list_offsets)
    return ExternalCluster(ClusterSpec(bootstrap="kafka:9092", tag="fencepost-a"))


def test_what_is_wrong_with_strangers_topics_is_no_matter_of_a_run(guest: ExternalCluster) -> None:
    with guest:
        assert guest.out_of_sync(["fencepost-a-in"]) == ["fencepost-a-in/1 lacks broker 2"]
        assert guest.out_of_sync(["fencepost-a-gone"]) == ["fencepost-a-gone does not exist"]
        assert guest.describe("theirs")[0].leader == -1


def test_what_strangers_have_open_in_internal_topics_is_no_matter_of_a_run(guest: ExternalCluster) -> None:
    with guest:
        guest._created_topics = ["fencepost-a-in"]
        guest._internal_starts["__consumer_offsets", 0] = 70
        ends = guest.log_offsets(["fencepost-a-in", "__consumer_offsets"])
        assert ends["fencepost-a-in", 0] == (0, 90, 100)
        assert ends["__consumer_offsets", 0] == (70, 100, 100)
        guest._unreadable["__consumer_offsets"] = "ACLs"
        assert ("__consumer_offsets", 0) not in guest.log_offsets(["fencepost-a-in", "__consumer_offsets"])
        guest._created_topics = []  # nothing to remove


def test_what_is_the_controllers_is_asked_of_the_next_broker_where_one_is_not(guest: ExternalCluster) -> None:
    asked: list[Target] = []

    def create(at: Target) -> str:
        asked.append(at)
        if len(asked) == 1:
            raise RequestRefused("creating t", admin.NOT_CONTROLLER)
        return "done"

    with guest:
        guest._brokers = {1: Address("a", 1), 2: Address("b", 2)}
        assert guest._ask_any_with_rights(create, "Create", "t") == "done"
        assert [at.host for at in asked] == ["a", "b"]


def test_nothing_of_it_can_be_struck(guest: ExternalCluster) -> None:
    with guest:
        assert guest.abilities == frozenset()
        assert not guest.brokers
        assert guest.network.alive
        guest.network.heal()
        with pytest.raises(FaultFailed, match="has no links that can be cut"):
            guest.network.impose(["a"], Cut())
        guest.record_requests(True)
        assert not guest.client_versions(["w0"]).versions
        assert guest.compacted(["fencepost-a-in", "__consumer_offsets"]) == {
            "fencepost-a-in": False,
            "__consumer_offsets": True,
        }
