"""A cluster that is already there, with what others keep on it: plaintext, and with TLS, SASL and ACLs."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import fencepost
from fencepost.api import Result
from harness.clients.client_properties import use_client_config
from harness.cluster import ClusterSpec
from harness.cluster.connecting import inspect_cluster
from harness.cluster.external import ExternalCluster
from harness.cluster.forbidden import Forbidden
from harness.cluster.local import LocalCluster
from harness.common.errors import EnvironmentFailure
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.ports import PortBlock
from harness.environment.prepare import prepare
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor
from harness.wire.security import NotTrusted
from tests.support.secured_cluster import OWN, PASSWORD, USER, SecuredCluster, own
from tests.support.token_server import TokenServer

ENDPOINT = "guests"
SECRET = "client-secret-0815"
BRIEF = {"time_limit": 30, "rate": 50}
"""Of runs whose question is who is let in: brokers and clients in Java take TLS slowly on a machine that has little."""
STRANGER = "a-strangers-topic"
STRANGERS_GROUP = "a-strangers-group"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalCluster]]:
    ready: PreparedEnvironment = prepare("4.3.1", "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        yield lambda kind, **settings: kind(
            ClusterSpec(endpoints=(ENDPOINT,), settings=settings),
            tmp_path_factory.mktemp("theirs"),
            ready,
            supervisor,
            ports.take,
        )


@pytest.fixture(scope="module")
def plain(start: Callable[..., LocalCluster]) -> Iterator[LocalCluster]:
    with start(LocalCluster, **{"log.cleaner.enable": "true"}) as cluster:
        keep_something_there(cluster)
        yield cluster


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with closing(TokenServer(tmp_path_factory.mktemp("tokens"), USER, SECRET)) as server:
        yield server


@pytest.fixture(scope="module")
def secured(start: Callable[..., LocalCluster], tokens: TokenServer) -> Iterator[SecuredCluster]:
    cluster = start(SecuredCluster)
    assert isinstance(cluster, SecuredCluster)
    cluster.tokens = tokens
    with cluster:
        cluster.admit(*OWN)
        yield cluster


def keep_something_there(cluster: LocalCluster) -> None:
    """A stranger's topic, group, and a transaction that stays open."""
    cluster.create_topics([TopicSpec(STRANGER, 1)], 60)
    told = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "a-stranger"}
    producer = Producer(told | {"transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(STRANGER, b"theirs")
    producer.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": STRANGERS_GROUP})
    consumer.commit(offsets=[TopicPartition(STRANGER, 0, 1)], asynchronous=False)
    producer.begin_transaction()
    producer.produce(STRANGER, b"left open")
    place = TopicPartition(STRANGER, 0, 2)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 30)
    assert producer.flush(30) == 0
    consumer.close()


def topics_of(cluster: LocalCluster) -> set[str]:
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    return {name for name in listed if not name.startswith("__")}


def run(place: Path, **options: Any) -> Result:
    chosen = {"nemesis": "kill-worker,pause-worker", "time_limit": 30, "seed": 3}
    return fencepost.run(cluster="external", store=str(place), **{**chosen, **options})


def test_a_right_pipeline_is_valid_beside_strangers_who_keep_all_that_is_theirs(
    plain: LocalCluster, tmp_path: Path
) -> None:
    before = topics_of(plain)
    result = run(tmp_path, bootstrap=plain.bootstrap_for(ENDPOINT))
    result.assert_valid()
    assert result.verdict["coverage"]["fenced"] >= 1
    assert topics_of(plain) == before
    assert plain.log_offsets([STRANGER])[STRANGER, 0] == (0, 2, 3)  # theirs is still open
    assert plain.committed_offsets(STRANGERS_GROUP) == {(STRANGER, 0): 1}
    assert "one replica" in result.verdict["not_checked"]["replica-divergence"]
    left = [name for name in (STRANGER, STRANGERS_GROUP, "a-stranger") if named_in(result.folder, name)]
    assert left == []


def test_a_defect_is_caught_on_a_cluster_with_tls_sasl_and_acls(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    config = secured.client_config(tmp_path / "client.properties")
    servers = secured.bootstrap_for(ENDPOINT)
    options = {"bootstrap": servers, "client_config": config}
    result = run(
        tmp_path / "store", **options, nemesis=None, defect="offsets-outside-transaction", keep="topics"
    )
    assert result.valid is False, result.explain()
    assert "lost-input" in result.verdict["anomalies"] or "reprocessed-input" in result.verdict["anomalies"]
    refused = result.verdict["not_checked"]["transaction-state-violation"]
    assert "--operation Read --operation Describe --topic __transaction_state" in refused
    assert named_in(result.folder, PASSWORD) == []
    assert any(topic.endswith("-purchases") for topic in topics_of(secured)), "--keep topics leaves them"


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_right_pipeline_is_valid_where_acls_keep_the_internal_topics(
    secured: SecuredCluster, tmp_path: Path, client: str
) -> None:
    config = secured.client_config(tmp_path / "client.properties", mechanism="SCRAM-SHA-256")
    result = run(
        tmp_path / "store",
        bootstrap=secured.bootstrap_for(ENDPOINT),
        client_config=config,
        client=client,
        **BRIEF,
    )
    result.assert_valid()
    for name in ("transaction-state-violation", "group-offset-regression"):
        assert "the cluster's ACLs keep" in result.verdict["not_checked"].get(name, ""), name
    assert named_in(result.folder, PASSWORD) == []


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_all_that_a_run_makes_begins_with_the_prefix_that_the_cluster_wants(
    start: Callable[..., LocalCluster], tmp_path: Path, client: str
) -> None:
    """Its ACLs allow these names and no others."""
    with start(SecuredCluster) as cluster:
        assert isinstance(cluster, SecuredCluster)
        cluster.admit(*own("team-x."))
        result = run(
            tmp_path / "store",
            bootstrap=cluster.bootstrap_for(ENDPOINT),
            client_config=cluster.client_config(tmp_path / "client.properties"),
            client=client,
            prefix="team-x.staging",
            keep="topics",
            **BRIEF,
        )
        result.assert_valid()
        assert {topic.rpartition("-")[0][: len("team-x.staging-")] for topic in topics_of(cluster)} == {
            "team-x.staging-"
        }


def named_in(folder: Path, text: str) -> list[Path]:
    """The files of a run that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_every_mechanism_lets_the_user_in_and_no_other_password(
    secured: SecuredCluster, tmp_path: Path, mechanism: str
) -> None:
    servers = secured.bootstrap_for(ENDPOINT)
    right = secured.client_config(tmp_path / "right", mechanism=mechanism)
    assert inspect_cluster(servers, str(right)).brokers == (1, 2, 3)
    wrong = secured.client_config(tmp_path / "wrong", mechanism=mechanism, password="another")
    with pytest.raises(NotTrusted, match=f"does not let the user {USER} in with {mechanism}"):
        inspect_cluster(servers, str(wrong))


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_clients_with_tokens_are_let_in(
    secured: SecuredCluster, tokens: TokenServer, tmp_path: Path, client: str
) -> None:
    config = tokens.client_config(tmp_path / "client.properties", secured.authority.certificate)
    servers = secured.bootstrap_for(ENDPOINT)
    result = run(tmp_path / "store", bootstrap=servers, client_config=config, client=client, **BRIEF)
    result.assert_valid()
    assert named_in(result.folder, SECRET) == []
    assert {"grant_type": "client_credentials", "scope": "kafka"} in tokens.asked


def test_a_client_with_a_wrong_secret_is_told_in_one_sentence(
    secured: SecuredCluster, tokens: TokenServer, tmp_path: Path
) -> None:
    certificate = secured.authority.certificate
    config = tokens.client_config(tmp_path / "client.properties", certificate, secret="wrong-4711")
    with pytest.raises(fencepost.FencepostFailed, match=f"gives the client {USER} no token") as failed:
        run(tmp_path / "store", bootstrap=secured.bootstrap_for(ENDPOINT), client_config=config)
    assert failed.value.exit_status == 4
    assert "check clientId, clientSecret and scope in sasl.jaas.config" in str(failed.value)
    assert "wrong-4711" not in str(failed.value)


def test_a_token_that_brokers_do_not_take_is_told_in_one_sentence(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    """Another server's: its signature and its audience are not those that the brokers were told of."""
    with closing(TokenServer(tmp_path, USER, SECRET, audience="others")) as others:
        certificate = secured.authority.certificate
        config = others.client_config(tmp_path / "client.properties", certificate)
        gone = others.client_config(tmp_path / "gone", certificate, secret="of another client")
        with pytest.raises(NotTrusted, match=f"does not let the client {USER} in with OAUTHBEARER"):
            inspect_cluster(secured.bootstrap_for(ENDPOINT), str(config))
    with pytest.raises(
        NotTrusted, match=r"does not answer .*: check sasl\.oauthbearer\.token\.endpoint\.url"
    ):
        inspect_cluster(secured.bootstrap_for(ENDPOINT), str(gone))


def test_a_wrong_way_to_connect_is_told_in_one_sentence(secured: SecuredCluster, tmp_path: Path) -> None:
    servers = secured.bootstrap_for(ENDPOINT)
    right = secured.client_config(tmp_path / "client.properties").read_text()
    cases = {
        "no-authority": (right.partition("ssl.truststore.type")[0], "set ssl.truststore.location"),
        "no-tls": (
            right.replace("SASL_SSL", "SASL_PLAINTEXT"),
            "no answer|not a Kafka broker|closed the connection",
        ),
    }
    for name, (text, words) in cases.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(EnvironmentFailure, match=words):
            inspect_cluster(servers, str(path))
    with pytest.raises(EnvironmentFailure, match="expects TLS or SASL"):
        inspect_cluster(servers, None)
    with pytest.raises(NotTrusted, match=r"ended the TLS handshake|does not speak TLS"):
        inspect_cluster(secured.bootstrap, str(tmp_path / "client.properties"))


def test_a_port_where_nobody_listens_ends_with_status_4(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(fencepost.FencepostFailed, match="no bootstrap server answers") as failed:
        run(tmp_path, bootstrap=f"127.0.0.1:{port}")
    assert failed.value.exit_status == 4


def test_topics_that_acls_forbid_are_told_with_the_acl_that_helps(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    config = secured.client_config(tmp_path / "client.properties")
    servers = secured.bootstrap_for(ENDPOINT)
    spec = ClusterSpec(bootstrap=servers, client_config=str(config), tag="not-fencepost")
    with (
        ExternalCluster(spec) as cluster,
        pytest.raises(Forbidden, match=r"kafka-acls\.sh --add .*--operation Create"),
    ):
        cluster.create_topics([TopicSpec("not-fencepost-purchases", 1)], 30)
    use_client_config(None)


def test_a_topic_that_exists_is_not_the_runs_own(plain: LocalCluster) -> None:
    with (
        ExternalCluster(ClusterSpec(bootstrap=plain.bootstrap, tag="a-strangers")) as cluster,
        pytest.raises(EnvironmentFailure, match=f"the topic {STRANGER} exists already"),
    ):
        cluster.create_topics([TopicSpec(STRANGER, 1)], 30)
    assert STRANGER in topics_of(plain)
