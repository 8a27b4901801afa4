"""No secret that passes the protocol proxy is in the files of a run: its journal never holds the body of a message."""

import base64
import json
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import ClusterSpec
from harness.environment.cache import cache_folder
from harness.environment.kafka import fetch_kafka, versions
from harness.environment.prepare import prepare
from harness.environment.resources import PortBlock
from harness.processes.spawn import Supervisor
from harness.protocol.frames import encode_response, with_size
from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from harness.protocol.schemas import Api, Field, Schemas
from tests.support.protocol_link import ProxyUnderTest
from tests.support.secured_cluster import FENCEPOST_RIGHTS, PASSWORD, USER, SecuredCluster
from tests.support.started_runs import has_commits, protocol_events, start_run

SECRET = "plant-4711"
NAMES = {"transactionalId", "groupId"}
CREDENTIALS = {"SaslAuthenticate", "AlterUserScramCredentials", "CreateDelegationToken"}


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return Schemas.of_jar(fetch_kafka(versions()[0], cache_folder()).clients_jar)


def with_secrets(fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """Return a message that has the secret in each text and in all bytes, except where a client or group is named."""
    message: dict[str, Any] = {}
    for field in fields:
        if version not in field.versions:
            continue
        value: Any = -1 if field.name == "Acks" else field.default  # a Produce with 0 gets no response
        if field.is_array and field.kind not in ("string", "bytes", "records") and not field.is_struct:
            message[field.name] = []
            continue
        if field.is_struct:
            value = with_secrets(field.fields, version)
        elif field.kind in ("string", "bytes", "records"):
            value = SECRET if field.kind == "string" else SECRET.encode()
            if field.entity in NAMES or field.name in ("Key", "CoordinatorKeys"):
                value = "shop"
        message[field.name] = [value] if field.is_array else value
    return message


def exchange(proxy: ProxyUnderTest, api: Api, version: int) -> None:
    """Send a request and its response through the proxy, and then both without their last bytes."""
    link = proxy.link()
    request = link.request(api.name, version, 1, with_secrets(api.request.fields, version))
    body = with_secrets(api.response.fields, version)
    response = encode_response(proxy.schemas, api, version, 1, body)
    assert api.name not in CREDENTIALS or SECRET.encode() in request + response
    for end in (None, -1, -3):
        link.send(with_size(request[4:end]))
        link.answer(with_size(response[4:end]))
        proxy.wait(1.0)
    link.connection.close()


@pytest.mark.parametrize("message", ["request", "response"])
def test_no_value_of_any_message_is_written(
    schemas: Schemas, message: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy = ProxyUnderTest(tmp_path, schemas)
    for api in schemas.apis.values():
        if api.request.versions.last < 0 or api.response.versions.last < 0:
            continue
        proxy.add(
            ProtocolRule(
                "r", Selector(api.name, message), Action.DELAY, times=None, release=Release(after_s=1.0)
            )
        )
        for version in {api.request.versions.first, api.request.versions.last}:
            exchange(proxy, api, version)
        assert proxy.status().acted and SECRET not in str(proxy.status()), api.name
        proxy.heal()
    proxy.state.journal.flush()
    journal = proxy.journal_file.read_text()
    assert all(f'"api":"{name}"' in journal for name in CREDENTIALS)
    for text in (journal, caplog.text, str(proxy.state.undecoded)):
        assert text and SECRET not in text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster with TLS, SASL and ACLs."""
    ready = prepare(versions()[0], "auto", "auto", cache_folder(), print)
    with Supervisor() as supervisor, PortBlock(ready.cache) as ports:
        spec, folder = ClusterSpec(brokers=1, endpoints=("guests",)), tmp_path_factory.mktemp("cluster")
        with SecuredCluster(spec, folder, ready, supervisor, ports.take) as started:
            started.create_user(*FENCEPOST_RIGHTS)
            yield started


@pytest.fixture(scope="module")
def interrupted(cluster: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on that cluster, with a rule. Ctrl-C has ended it as soon as the rule had acted."""
    folder = tmp_path_factory.mktemp("interrupted")
    config, store = cluster.client_config(folder / "client.properties", mechanism="PLAIN"), folder / "store"
    options = {
        "cluster": "external",
        "bootstrap": cluster.bootstrap_for("guests"),
        "client-config": str(config),
        "permits": "workers,links",
        "rule": "api=EndTxn,action=delay,delay_s=0.1,times=5",
        "nemesis": "none",
        "time-limit": "60",
        "store": str(store),
    }
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    with start_run(folder / "log", *words) as run:
        run.await_output(
            lambda text: has_commits(text) and bool(protocol_events(store, "answered")),
            "transactions to be committed, and a delayed request to be answered",
        )
        run.signal(signal.SIGINT)
        assert run.process.wait(120) == 3
        run.await_no_leftovers()
    (stored,) = store.glob("shop/*")
    return stored


def test_a_password_is_in_no_file_of_a_run_with_rules(interrupted: Path) -> None:
    (fault,) = json.loads((interrupted / "verdict.json").read_text())["faults"]
    assert fault["acted"], fault
    lines = (interrupted / "protocol.jsonl").read_text().splitlines()
    links = {json.loads(line)["request"]["link"] for line in lines if line.startswith('{"request"')}
    assert "client:w0->1" in links
    plain = f"\0{USER}\0{PASSWORD}".encode()
    wanted = (PASSWORD.encode(), json.dumps(PASSWORD).encode(), plain, base64.b64encode(plain))
    files = [
        path
        for path in interrupted.parents[2].rglob("*")
        if path.name != "client.properties" and path.is_file()
    ]
    assert {"log", "report.html"} <= {path.name for path in files}
    assert [path for path in files if any(text in path.read_bytes() for text in wanted)] == []
