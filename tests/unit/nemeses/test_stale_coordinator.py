"""stale-coordinator names another broker, and proves that this broker has refused the client."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from harness.common.errors import FaultFailed
from harness.model.kafka_protocol import error_codes
from harness.network import ApplyRule
from harness.network.ruled import RuleInForce, apply_rule
from harness.runner.nemesis import InjectedFault, PlannedFault, Target
from nemeses.stale_coordinator import NEMESIS
from tests.support.fake_run import FakeRun, fake_run
from tests.support.protocol_link import OWN_ID, ProxyProcess, ProxyUnderTest

pytestmark = pytest.mark.processes

PLANNED = PlannedFault("stale-coordinator", Target("txn-coordinator", OWN_ID), 0.0, 0.0)
REAL, STALE = 1, 2
NOT_COORDINATOR = error_codes()["NOT_COORDINATOR"]


class ProxiedLinks:
    """A network with the links of two endpoints to three brokers, and a protocol proxy on them."""

    def __init__(self, proxy: ProxyUnderTest) -> None:
        self.links = [f"client:{endpoint}->{broker}" for endpoint in ("w0", "w1") for broker in (1, 2, 3)]
        self._process = ProxyProcess(proxy)

    def impose(self, links: Sequence[str], effect: ApplyRule) -> AbstractContextManager[RuleInForce]:
        return apply_rule(self._process, links, effect)


@contextmanager
def proxied_run(folder: Path) -> Iterator[tuple[FakeRun, ProxyUnderTest]]:
    """A run in which broker 1 coordinates all transactional ids, and broker n is at the port n."""
    with fake_run(folder) as run:
        proxy = ProxyUnderTest(folder)
        run.cluster.network = ProxiedLinks(proxy)  # type: ignore[assignment]
        run.cluster.bootstrap = "localhost:1,localhost:2,localhost:3"
        assert run.cluster.txn_coordinator(OWN_ID) == REAL
        yield run, proxy


def ask(proxy: ProxyUnderTest, version: int) -> int:
    """End a transaction, and ask for the coordinator. Return the broker that the response names."""
    link = proxy.link(f"client:w1->{REAL}")
    link.send(link.end_txn(1))
    assert not link.broker.take()  # the broker never gets it
    assert link.error_of(link.client.take()[0]) == NOT_COORDINATOR
    link.send(link.find_coordinator(2, version))
    link.answer(link.coordinator(2, version, REAL))
    api = link.schemas.api("FindCoordinator")
    start = 9 if version >= 3 else 8
    body, _ = api.response.decode(memoryview(link.client.take()[0]), version, start)
    found = body["Coordinators"][0] if version >= 4 else body
    assert found["NodeId"] == found["Port"] and found["Host"] == "localhost"
    return int(found["NodeId"])


def end_txn(proxy: ProxyUnderTest, broker: int, error: str) -> None:
    """End a transaction at a broker, which answers with this error."""
    link = proxy.link(f"client:w1->{broker}")
    link.send(link.end_txn(7))
    link.answer(link.response("EndTxn", 7, error))


@pytest.mark.parametrize("version", [1, 2, 3, 4, 6])
def test_the_stale_broker_refuses_the_client_and_the_next_answer_is_right(
    version: int, tmp_path: Path
) -> None:
    with proxied_run(tmp_path) as (run, proxy), NEMESIS.inject(run.context, PLANNED) as effect:
        assert ask(proxy, version) == STALE
        end_txn(proxy, STALE, "NOT_COORDINATOR")
        assert ask_again(proxy, version) == REAL
        end_txn(proxy, REAL, "NONE")
    assert effect.acted
    names, used = effect.details["rule"].split(", "), {event.rule for event in proxy.events}
    assert used <= {*names} and [name.rpartition("-")[0] for name in names] == [
        "stale-coordinator",
        "stale-coordinator",
        "ask-for-coordinator",
    ]
    path = "Coordinators.NodeId" if version >= 4 else "NodeId"
    for words in (
        "EndTxn of shop-1, correlation 1 was answered NOT_COORDINATOR, and never delivered",
        f"FindCoordinator of shop-1, correlation 2: its response was changed: {path} {REAL} became {STALE}",
        f"EndTxn of shop-1, correlation 7, was sent to broker {STALE}, which answered NOT_COORDINATOR",
        f"EndTxn of shop-1, correlation 7, was sent to broker {REAL}, which answered NONE",
    ):
        assert words in "; ".join(effect.proof)


def ask_again(proxy: ProxyUnderTest, version: int) -> int:
    link = proxy.link(f"client:w1->{REAL}")
    link.send(link.find_coordinator(3, version))
    answer = link.coordinator(3, version, REAL)
    link.answer(answer)
    return REAL if link.client.take() == [answer] else STALE


def inject_and(tmp_path: Path, asks: bool) -> InjectedFault:
    with proxied_run(tmp_path) as (run, proxy), NEMESIS.inject(run.context, PLANNED) as effect:
        if asks:
            ask(proxy, 4)
            end_txn(proxy, REAL, "NONE")  # the client has ignored the response
    return effect


def test_it_did_not_act_if_the_client_sends_nothing_to_the_stale_broker(tmp_path: Path) -> None:
    effect = inject_and(tmp_path, asks=True)
    assert (
        not effect.acted and "but no request was sent to broker 2" in effect.unmet_goals["stale-coordinator"]
    )


def test_it_did_not_act_if_the_client_never_asks(tmp_path: Path) -> None:
    effect = inject_and(tmp_path, asks=False)
    assert not effect.acted
    assert "none of the EndTxn requests of shop-1: none was seen" in effect.unmet_goals["stale-coordinator"]


def test_it_needs_a_broker_that_is_not_the_coordinator(tmp_path: Path) -> None:
    with proxied_run(tmp_path) as (run, _):
        run.cluster.network.links = ["client:w0->1"]
        with (
            pytest.raises(FaultFailed, match="no link to a broker other than 1"),
            NEMESIS.inject(run.context, PLANNED),
        ):
            pass
