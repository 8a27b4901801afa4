"""A rule is proved by its effect, and not because it acted."""

from pathlib import Path

import pytest

from harness.common.wording import HARNESS_CLIENT_ID
from harness.protocol.frames import MAX_BACKLOG_BYTES, SLICE_BYTES
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest

OWN = "EndTxn of shop-1, correlation 1"
DELAY = Release(after_s=5.0)


@pytest.fixture
def proxy(tmp_path: Path) -> ProxyUnderTest:
    return ProxyUnderTest(tmp_path)


@pytest.fixture
def link(proxy: ProxyUnderTest) -> LinkUnderTest:
    return proxy.link()


def rule(action: Action, api: str = "EndTxn", **fields: object) -> ProtocolRule:
    message = fields.pop("message", "request")
    return ProtocolRule("r", Selector(api, message), action, **fields)  # type: ignore[arg-type]


def client_goes(link: LinkUnderTest) -> None:
    link.client.closed = True
    link.connection.client.connection_lost(None)


@pytest.mark.parametrize(
    "made",
    [
        rule(Action.DROP, "ApiVersions"),
        rule(Action.HOLD, "ApiVersions", message="response"),
        rule(Action.HOLD, release=Release(after=(Selector("ApiVersions"),))),
    ],
)
def test_a_request_of_the_harness_itself_is_no_message_for_a_rule(
    proxy: ProxyUnderTest, made: ProtocolRule
) -> None:
    proxy.add(made)
    held, own = proxy.link(), proxy.link()
    held.send(held.end_txn(1))
    request = own.request("ApiVersions", 0, 1, {}, HARNESS_CLIENT_ID)
    own.send(request)
    assert own.broker.take() == [request]
    own.answer(own.response("ApiVersions", 1))
    status = proxy.status()
    assert own.client.take() and status.proved == 0
    assert (status.matched, status.seen) == ((1, 1) if made.select.api == "EndTxn" else (0, 0))
    assert (status.kept == 1) is (made.select.api == "EndTxn")


def test_a_delayed_request_is_delivered_after_its_client_has_gone(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.DELAY, release=DELAY))
    link.send(link.end_txn(1))
    client_goes(link)
    proxy.wait(4.9)
    assert not link.broker.closed and proxy.status().proved == 0
    proxy.wait(0.2)
    assert link.broker.take() == [link.end_txn(1)]
    link.answer(link.response("EndTxn", 1))
    assert link.broker.closed and proxy.heal().proved == 1
    assert [event.words for event in proxy.events] == [
        f"{OWN}: delayed by 5 s",
        f"{OWN} was delivered after 5 s",
        f"{OWN} was answered NONE",
    ]


def test_a_delay_that_the_heal_ends_proves_nothing(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DELAY, release=DELAY))
    link.send(link.end_txn(1) + link.produce(2))
    status = proxy.heal()
    assert link.broker.take() == [link.end_txn(1), link.produce(2)]
    assert status.words[-1] == f"{OWN} was delivered at the heal, because 5 s had not passed"
    link.answer(link.response("EndTxn", 1))
    assert proxy.heal().proved == 0 and status.missed == 1


def test_each_of_several_requests_of_one_id_is_delayed(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DELAY, times=None, release=DELAY))
    link.send(link.end_txn(1) + link.end_txn(2))
    proxy.wait(5.0)
    assert link.broker.take() == [link.end_txn(1)]
    proxy.wait(5.0)
    assert link.broker.take() == [link.end_txn(2)] and proxy.status().acted == 2


@pytest.mark.parametrize("action", [Action.DELAY, Action.HOLD])
def test_a_late_response_proves_nothing_if_its_client_has_gone(
    proxy: ProxyUnderTest, link: LinkUnderTest, action: Action
) -> None:
    proxy.add(rule(action, message="response", release=DELAY))
    link.send(link.end_txn(1))
    link.answer(link.response("EndTxn", 1))
    client_goes(link)
    proxy.wait(5.0)
    status = proxy.status()
    assert (status.acted, status.proved, status.kept) == (1, 0, 0) and link.broker.closed
    assert status.words[-1] == f"{OWN}: its response was due after 5 s, but its client had gone"


@pytest.mark.parametrize("action", [Action.DELAY, Action.HOLD])
def test_a_late_response_is_proved_once_the_client_has_it(
    proxy: ProxyUnderTest, link: LinkUnderTest, action: Action
) -> None:
    proxy.add(rule(action, message="response", release=DELAY))
    link.send(link.end_txn(1))
    link.answer(link.response("EndTxn", 1))
    assert proxy.status().proved == 0
    proxy.wait(5.0)
    assert proxy.status().proved == 1 and link.client.take() == [link.response("EndTxn", 1)]


@pytest.mark.parametrize("when", When)
def test_an_error_that_the_client_never_got_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, when: When
) -> None:
    proxy.add(rule(Action.ERROR, error="NOT_COORDINATOR", when=when))
    link.send(link.produce(1) + link.end_txn(2))
    client_goes(link)
    status = proxy.status()
    assert (status.acted, status.proved) == (1, 0)
    assert proxy.events[-1].event == "not answered, because its client had gone"


def test_an_error_that_waits_behind_an_earlier_response_is_proved_after_it(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.ERROR, error="NOT_COORDINATOR"))
    link.send(link.produce(1) + link.end_txn(2))
    assert proxy.status().proved == 0
    link.answer(link.response("Produce", 1))
    assert proxy.status().proved == 1


@pytest.mark.parametrize(("error", "proved"), [("CONCURRENT_TRANSACTIONS", 0), ("NONE", 1)])
def test_an_error_that_the_broker_answered_itself_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, error: str, proved: int
) -> None:
    proxy.add(rule(Action.ERROR, message="response", error="CONCURRENT_TRANSACTIONS"))
    link.send(link.end_txn(1))
    link.answer(link.response("EndTxn", 1, error))
    assert proxy.status().proved == proved


def test_an_error_acts_on_the_next_response_if_the_broker_has_answered_it_itself(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.ERROR, error="CONCURRENT_TRANSACTIONS", when=When.AFTER))
    for correlation, error, proved in ((1, "CONCURRENT_TRANSACTIONS", 0), (2, "NONE", 1), (3, "NONE", 1)):
        link.send(link.end_txn(correlation))
        link.answer(link.response("EndTxn", correlation, error))
        assert (proxy.status().acted, proxy.status().proved) == (proved, proved)


def test_a_produce_that_gets_no_response_is_passed_by_an_error(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.ERROR, "Produce", error="NOT_ENOUGH_REPLICAS"))
    link.send(link.produce(1, acks=0))
    assert link.broker.take() == [link.produce(1, acks=0)] and proxy.status().acted == 0
    link.send(link.produce(2))
    assert proxy.status().proved == 1


@pytest.mark.parametrize(
    "made", [rule(Action.CLOSE, when=When.AFTER), rule(Action.EDIT, set_fields={"ProducerEpoch": 9})]
)
def test_a_request_that_found_no_broker_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, made: ProtocolRule
) -> None:
    proxy.add(made)
    link.broker.closed = True
    link.send(link.end_txn(1))
    assert (proxy.status().acted, proxy.status().proved) == (1, 0)


def test_a_closed_connection_is_proved_once_the_broker_has_answered(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.CLOSE, when=When.AFTER))
    link.send(link.end_txn(1))
    assert proxy.status().proved == 0
    link.answer(link.response("EndTxn", 1))
    assert proxy.status().proved == 1


def test_no_text_but_a_name_is_in_the_proof_of_a_change(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    paths = {"TransactionalId": "shop-9", "ProducerId": 4}
    proxy.add(rule(Action.EDIT, set_fields=paths))
    link.send(link.end_txn(1))
    assert proxy.status().words == (
        f"{OWN}: it was changed: TransactionalId shop-1 became shop-9, ProducerId 7 became 4",
    )
    proxy.add(rule(Action.EDIT, "FindCoordinator", message="response", set_fields={"Host": "x", "NodeId": 5}))
    link.send(link.find_coordinator(2, 1))
    link.answer(link.coordinator(2, 1, 4))
    assert proxy.status().words == (
        (
            "FindCoordinator of shop-1, correlation 2: its response was changed: "
            "Host a text of 9 characters became a text of 1 characters, NodeId 4 became 5"
        ),
    )


def test_a_client_whose_requests_wait_is_not_read_for_ever(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD, client=ClientConnection.STALL))
    link.send(link.end_txn(1))
    chunk = link.produce(2, size=1 << 20)
    sent = 0
    while link.client.reading and sent < 10 * MAX_BACKLOG_BYTES:
        link.send(chunk)
        sent += len(chunk)
    assert sent <= MAX_BACKLOG_BYTES + len(chunk)
    proxy.heal()
    assert len(link.broker.written) < len(chunk)  # other connections have their turn
    for _ in range(sent // SLICE_BYTES + 1):
        proxy.wait(0.0)
    assert link.client.reading
    assert link.broker.take() == [link.end_txn(1)] + [chunk] * (sent // len(chunk))


def test_a_slow_broker_and_waiting_requests_pause_a_client_independently(link: LinkUnderTest) -> None:
    client = link.connection.client
    client.pause_reading("its requests wait", paused=True)
    link.connection.broker.pause_writing()
    client.pause_reading("its requests wait", paused=False)
    assert not link.client.reading
    link.connection.broker.resume_writing()
    assert link.client.reading
