"""An external cluster that has topics and groups of others: plaintext, and with TLS, SASL and ACLs."""

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
from harness.cluster.connecting import Forbidden, inspect_cluster
from harness.cluster.external import ExternalCluster
from harness.cluster.local import LocalCluster
from harness.common.errors import EnvironmentFailure
from harness.environment import PreparedEnvironment
from harness.environment.cache import cache_folder
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.environment.versions import DEFAULT_KAFKA
from harness.model.pipeline import TopicSpec
from harness.processes.spawn import Supervisor
from harness.wire.security import NotTrusted
from tests.support.secured_cluster import FENCEPOST_RIGHTS, PASSWORD, USER, SecuredCluster, rights_for_prefix
from tests.support.token_server import TokenServer

ENDPOINT = "guests"
SECRET = "client-secret-0815"
SHORT = {"time_limit": 30, "rate": 50}
"""For runs that test authentication only, because TLS in Java is slow on a small machine."""
OTHER_TOPIC = "another-users-topic"
OTHER_GROUP = "another-users-group"
OTHER_ID = "another-user"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalCluster]]:
    ready: PreparedEnvironment = prepare(DEFAULT_KAFKA, "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        yield lambda kind, **settings: kind(
            ClusterSpec(endpoints=(ENDPOINT,), settings=settings),
            tmp_path_factory.mktemp("cluster"),
            ready,
            supervisor,
            ports.take,
        )


@pytest.fixture(scope="module")
def plain(start: Callable[..., LocalCluster]) -> Iterator[LocalCluster]:
    with start(LocalCluster, **{"log.cleaner.enable": "true"}) as cluster:
        write_data_of_others(cluster)
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
        cluster.create_user(*FENCEPOST_RIGHTS)
        yield cluster


def write_data_of_others(cluster: LocalCluster) -> None:
    """Write a topic and a group of another user, and leave a transaction of this user open."""
    cluster.create_topics([TopicSpec(OTHER_TOPIC, 1)], 60)
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": OTHER_ID}
    producer = Producer(settings | {"transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(OTHER_TOPIC, b"committed")
    producer.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": OTHER_GROUP})
    consumer.commit(offsets=[TopicPartition(OTHER_TOPIC, 0, 1)], asynchronous=False)
    producer.begin_transaction()
    producer.produce(OTHER_TOPIC, b"left open")
    offset = TopicPartition(OTHER_TOPIC, 0, 2)
    producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), 30)
    assert producer.flush(30) == 0
    consumer.close()


def topics_of(cluster: LocalCluster) -> set[str]:
    listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    return {name for name in listed if not name.startswith("__")}


def run(folder: Path, **options: Any) -> Result:
    defaults = {"nemesis": "kill-worker,pause-worker", "time_limit": 30, "seed": 3}
    return fencepost.run(cluster="external", store=str(folder), **{**defaults, **options})


def test_a_correct_pipeline_is_valid_and_changes_no_data_of_others(
    plain: LocalCluster, tmp_path: Path
) -> None:
    before = topics_of(plain)
    result = run(tmp_path, bootstrap=plain.bootstrap_for(ENDPOINT))
    result.assert_valid()
    assert result.verdict["coverage"]["fenced"] >= 1
    assert topics_of(plain) == before
    assert plain.log_offsets([OTHER_TOPIC])[OTHER_TOPIC, 0] == (
        0,
        2,
        3,
    )  # the transaction of the other user is still open
    assert plain.committed_offsets(OTHER_GROUP) == {(OTHER_TOPIC, 0): 1}
    assert "one replica" in result.verdict["not_checked"]["replica-divergence"]
    named_files = [name for name in (OTHER_TOPIC, OTHER_GROUP, OTHER_ID) if files_with(result.folder, name)]
    assert named_files == []


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
    assert files_with(result.folder, PASSWORD) == []
    assert any(topic.endswith("-purchases") for topic in topics_of(secured)), "--keep topics leaves them"


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_correct_pipeline_is_valid_if_acls_forbid_internal_topics(
    secured: SecuredCluster, tmp_path: Path, client: str
) -> None:
    config = secured.client_config(tmp_path / "client.properties", mechanism="SCRAM-SHA-256")
    result = run(
        tmp_path / "store",
        bootstrap=secured.bootstrap_for(ENDPOINT),
        client_config=config,
        client=client,
        **SHORT,
    )
    result.assert_valid()
    for name in ("transaction-state-violation", "group-offset-regression"):
        assert "the cluster's ACLs do not allow" in result.verdict["not_checked"].get(name, ""), name
    assert files_with(result.folder, PASSWORD) == []


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_all_names_of_a_run_begin_with_the_prefix_that_acls_require(
    start: Callable[..., LocalCluster], tmp_path: Path, client: str
) -> None:
    """The ACLs allow only names with the prefix."""
    with start(SecuredCluster) as cluster:
        assert isinstance(cluster, SecuredCluster)
        cluster.create_user(*rights_for_prefix("team-x."))
        result = run(
            tmp_path / "store",
            bootstrap=cluster.bootstrap_for(ENDPOINT),
            client_config=cluster.client_config(tmp_path / "client.properties"),
            client=client,
            prefix="team-x.staging",
            keep="topics",
            **SHORT,
        )
        result.assert_valid()
        assert {topic.rpartition("-")[0][: len("team-x.staging-")] for topic in topics_of(cluster)} == {
            "team-x.staging-"
        }


def files_with(folder: Path, text: str) -> list[Path]:
    """Return the files of a run that contain a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_every_mechanism_accepts_only_the_right_password(
    secured: SecuredCluster, tmp_path: Path, mechanism: str
) -> None:
    servers = secured.bootstrap_for(ENDPOINT)
    right = secured.client_config(tmp_path / "right", mechanism=mechanism)
    assert inspect_cluster(servers, str(right)).brokers == (1, 2, 3)
    wrong = secured.client_config(tmp_path / "wrong", mechanism=mechanism, password="another")
    with pytest.raises(NotTrusted, match=f"does not let the user {USER} in with {mechanism}"):
        inspect_cluster(servers, str(wrong))


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_clients_with_tokens_are_accepted(
    secured: SecuredCluster, tokens: TokenServer, tmp_path: Path, client: str
) -> None:
    config = tokens.client_config(tmp_path / "client.properties", secured.authority.certificate)
    servers = secured.bootstrap_for(ENDPOINT)
    result = run(tmp_path / "store", bootstrap=servers, client_config=config, client=client, **SHORT)
    result.assert_valid()
    assert files_with(result.folder, SECRET) == []
    assert {"grant_type": "client_credentials", "scope": "kafka"} in tokens.requests


def test_a_wrong_client_secret_is_reported_in_one_sentence(
    secured: SecuredCluster, tokens: TokenServer, tmp_path: Path
) -> None:
    certificate = secured.authority.certificate
    config = tokens.client_config(tmp_path / "client.properties", certificate, secret="wrong-4711")
    with pytest.raises(fencepost.FencepostFailed, match=f"gives the client {USER} no token") as failed:
        run(tmp_path / "store", bootstrap=secured.bootstrap_for(ENDPOINT), client_config=config)
    assert failed.value.exit_status == 4
    assert "check clientId, clientSecret and scope in sasl.jaas.config" in str(failed.value)
    assert "wrong-4711" not in str(failed.value)


def test_a_token_that_brokers_reject_is_reported_in_one_sentence(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    """The brokers know neither the signature nor the audience of a token from another server."""
    with closing(TokenServer(tmp_path, USER, SECRET, audience="others")) as other_server:
        certificate = secured.authority.certificate
        config = other_server.client_config(tmp_path / "client.properties", certificate)
        unanswered = other_server.client_config(tmp_path / "gone", certificate, secret="of another client")
        with pytest.raises(NotTrusted, match=f"does not let the client {USER} in with OAUTHBEARER"):
            inspect_cluster(secured.bootstrap_for(ENDPOINT), str(config))
    with pytest.raises(
        NotTrusted, match=r"does not answer .*: check sasl\.oauthbearer\.token\.endpoint\.url"
    ):
        inspect_cluster(secured.bootstrap_for(ENDPOINT), str(unanswered))


def test_a_wrong_connection_setting_is_reported_in_one_sentence(
    secured: SecuredCluster, tmp_path: Path
) -> None:
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


def test_a_port_without_a_listener_ends_with_status_4(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(fencepost.FencepostFailed, match="no bootstrap server answers") as failed:
        run(tmp_path, bootstrap=f"127.0.0.1:{port}")
    assert failed.value.exit_status == 4


def test_the_message_about_a_forbidden_topic_has_the_missing_acl(
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


def test_a_run_does_not_use_a_topic_that_exists_already(plain: LocalCluster) -> None:
    with (
        ExternalCluster(ClusterSpec(bootstrap=plain.bootstrap, tag="another-users")) as cluster,
        pytest.raises(EnvironmentFailure, match=f"the topic {OTHER_TOPIC} exists already"),
    ):
        cluster.create_topics([TopicSpec(OTHER_TOPIC, 1)], 30)
    assert OTHER_TOPIC in topics_of(plain)
