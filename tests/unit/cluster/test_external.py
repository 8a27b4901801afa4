from collections.abc import Collection

import pytest

from checkers.checker import refused_log
from harness.cluster import Ability, ClusterSpec, PartitionView, admin, operations
from harness.cluster.admin import RequestRefused
from harness.cluster.connecting import Forbidden, explain_hidden, explain_refusal, parse_addresses
from harness.cluster.external import ExternalCluster
from harness.common.errors import FaultFailed, UsageError
from harness.network import Cut
from harness.wire.protocol import Address, Target
from harness.wire.security import Security


def test_bootstrap_servers_are_parsed_with_their_ports() -> None:
    addresses = parse_addresses("kafka-1:9092, [::1]:9093", Security("SSL"))
    assert [(address.host, address.port, address.security.protocol) for address in addresses] == [
        ("kafka-1", 9092, "SSL"),
        ("::1", 9093, "SSL"),
    ]
    assert str(addresses[1]) == "[::1]:9093"


@pytest.mark.parametrize("text", ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:99999", "a:1,b"])
def test_a_malformed_bootstrap_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="bootstrap must be HOST:PORT"):
        parse_addresses(text, Security())


@pytest.mark.parametrize(
    ("code", "kind"), [(29, "topic"), (30, "group"), (53, "transactional-id"), (31, "topic")]
)
def test_a_refusal_by_acls_says_how_to_allow_the_request(code: int, kind: str) -> None:
    message = str(explain_refusal(RequestRefused("asking", code), "Create", "team.x-1", "team.x"))
    assert f"--{kind} team.x- --resource-pattern-type prefixed" in message


def test_a_refusal_to_delete_topics_names_the_broker_setting() -> None:
    assert "delete.topic.enable=false" in str(
        explain_refusal(RequestRefused("deleting", 73), "Delete", "x", "x")
    )


def test_a_temporary_error_is_not_explained() -> None:
    assert explain_refusal(RequestRefused("asking", 15), "Describe", "x", "x") is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (29, "the cluster's ACLs do not allow this user to see __consumer_offsets (a Metadata request for"),
        (
            3,
            "a Metadata request for __consumer_offsets was answered with error 3, UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (5, "a Metadata request for __consumer_offsets was answered with error 5"),
        (None, "a Metadata request for __consumer_offsets was answered without this topic"),
    ],
)
def test_a_hidden_topic_is_explained_by_the_answer_and_not_by_a_guess(code: int | None, words: str) -> None:
    explained = explain_hidden("__consumer_offsets", code)
    assert explained.startswith(words) and ("ACLs" in explained) == (code == 29)
    reason = refused_log("__consumer_offsets", explained)
    assert ("kafka-acls.sh" in reason.remedy) == (code == 29)
    assert ("Apache Kafka" in reason.remedy) == (code != 29)


def test_a_group_without_coordinator_is_explained_by_the_answer(
    cluster: ExternalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(broker: object, key: str, kind: int) -> int:
        raise RequestRefused(f"finding the coordinator of {key}", 35)

    monkeypatch.setattr(admin, "find_coordinator", refuse)
    with cluster:
        assert cluster._why_no_coordinator("g") == "finding the coordinator of g was refused with error 35"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ExternalCluster:
    """A cluster on which another program's topic has no leader, and a topic of the run lacks a replica."""
    in_sync, out_of_sync = PartitionView(1, (1, 2), (1, 2), "id"), PartitionView(1, (1, 2), (1,), "id")
    leaderless = PartitionView(-1, (1, 2), (), "id")
    all_topics = {
        "fencepost-a-in": {0: in_sync, 1: out_of_sync},
        "theirs": {0: leaderless},
        "__consumer_offsets": {0: in_sync},
    }

    def fetch_view(broker: object, timeout_s: float, topics: Collection[str]) -> admin.BrokerView:
        described = {topic: all_topics[topic] for topic in topics if topic in all_topics}
        return admin.BrokerView((1, 2), described, {}, {1: ("kafka", 9092)}, 1)

    def list_offsets(
        broker: object, partitions: Collection[tuple[str, int]], timestamp: int, isolation: int
    ) -> dict[tuple[str, int], int]:
        offsets = {admin.EARLIEST: 0, admin.LATEST: 90 if isolation else 100}
        return dict.fromkeys(partitions, offsets[timestamp])

    monkeypatch.setattr(admin, "fetch_view", fetch_view)
    monkeypatch.setattr(admin, "list_offsets", list_offsets)
    return ExternalCluster(ClusterSpec(bootstrap="kafka:9092", tag="fencepost-a"))


def test_problems_of_other_topics_are_not_the_runs(cluster: ExternalCluster) -> None:
    with cluster:
        assert cluster.out_of_sync(["fencepost-a-in"]) == ["fencepost-a-in/1 lacks broker 2"]
        assert cluster.out_of_sync(["fencepost-a-gone"]) == ["fencepost-a-gone does not exist"]
        assert cluster.describe("theirs")[0].leader == -1


def test_open_transactions_of_others_in_internal_topics_are_ignored(cluster: ExternalCluster) -> None:
    with cluster:
        cluster._created_topics = ["fencepost-a-in"]
        cluster._internal_starts["__consumer_offsets", 0] = 70
        ends = cluster.log_offsets(["fencepost-a-in", "__consumer_offsets"])
        assert ends["fencepost-a-in", 0] == (0, 90, 100)
        assert ends["__consumer_offsets", 0] == (70, 100, 100)
        cluster._unreadable["__consumer_offsets"] = "ACLs"
        assert ("__consumer_offsets", 0) not in cluster.log_offsets(["fencepost-a-in", "__consumer_offsets"])
        cluster._created_topics = []  # nothing to remove


def test_a_request_for_the_controller_is_sent_to_the_next_broker(cluster: ExternalCluster) -> None:
    targets: list[Target] = []

    def create(target: Target) -> str:
        targets.append(target)
        if len(targets) == 1:
            raise RequestRefused("creating t", admin.NOT_CONTROLLER)
        return "done"

    with cluster:
        cluster._brokers = {1: Address("a", 1), 2: Address("b", 2)}
        assert cluster._ask_any_with_rights(create, "Create", "t") == "done"
        assert [target.host for target in targets] == ["a", "b"]


def test_partitions_are_added_only_to_topics_of_the_run(
    cluster: ExternalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(
        operations, "add_partitions", lambda broker, topic, count: sent.append((topic, count))
    )
    monkeypatch.setattr(ExternalCluster, "topics", lambda self: ("fencepost-a-in",))
    with cluster:
        with pytest.raises(FaultFailed, match="on this cluster one cannot add partitions to topics"):
            cluster.add_partitions("fencepost-a-in", 3)
        cluster.abilities |= {Ability.ADD_PARTITIONS}
        for other in ("theirs", "__consumer_offsets"):
            with pytest.raises(
                FaultFailed, match=f"{other} was not changed, because it is not a topic of this run"
            ):
                cluster.add_partitions(other, 3)
        cluster.add_partitions("fencepost-a-in", 3)
    assert sent == [("fencepost-a-in", 3)]


def test_the_permission_for_topics_is_an_ability_of_the_cluster() -> None:
    spec = ClusterSpec(bootstrap="kafka:9092", tag="fencepost-a")
    assert ExternalCluster(spec, may_add_partitions=True).abilities == {Ability.ADD_PARTITIONS}


def test_partitions_that_acls_forbid_say_how_to_allow_them(
    cluster: ExternalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(broker: object, topic: str, count: int) -> None:
        raise RequestRefused("adding", 29)

    monkeypatch.setattr(operations, "add_partitions", refuse)
    monkeypatch.setattr(ExternalCluster, "topics", lambda self: ("fencepost-a-in",))
    with cluster:
        cluster.abilities |= {Ability.ADD_PARTITIONS}
        with pytest.raises(
            Forbidden, match=r"do not allow this user Alter of .* --operation Alter --topic fencepost-"
        ):
            cluster.add_partitions("fencepost-a-in", 3)


def test_no_fault_can_be_injected_into_a_cluster_without_permits(cluster: ExternalCluster) -> None:
    with cluster:
        assert cluster.abilities == frozenset()
        assert not cluster.brokers
        assert not cluster.network.problem
        cluster.network.heal()
        with pytest.raises(FaultFailed, match="has no links that can be cut"):
            cluster.network.impose(["a"], Cut())
        assert cluster.network.observed_clients(["a"]) is None
        assert cluster.compacted(["fencepost-a-in", "__consumer_offsets"]) == {
            "fencepost-a-in": False,
            "__consumer_offsets": True,
        }
