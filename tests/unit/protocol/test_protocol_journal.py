"""What a reader of the proxy's journal learns of the requests that rules changed, and of errors."""

from pathlib import Path

import pytest

from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from harness.record.protocol_journal import (
    JOURNAL,
    MAX_REQUESTS,
    JournaledRequest,
    ProtocolJournal,
    ProxyJournal,
    RuleEvent,
    read_journal,
    read_requests,
)
from tests.support.changed_requests import ZERO_NS, at, end_txn, write_held_requests
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest


@pytest.fixture
def proxy(tmp_path: Path) -> ProxyUnderTest:
    return ProxyUnderTest(tmp_path)


@pytest.fixture
def link(proxy: ProxyUnderTest) -> LinkUnderTest:
    return proxy.link()


def add(proxy: ProxyUnderTest, action: Action, **fields: object) -> None:
    select = Selector("EndTxn", fields.pop("message", "request"))  # type: ignore[arg-type]
    proxy.add(ProtocolRule("late-end-txn-3", select, action, **fields))  # type: ignore[arg-type]


def read(proxy: ProxyUnderTest) -> ProtocolJournal:
    proxy.state.journal.flush()
    return read_journal(proxy.journal_file)


def words(changed: JournaledRequest) -> list[str]:
    return [step.words for step in changed.steps()]


def test_a_held_request_has_the_time_and_reason_of_its_delivery_and_its_answer(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    add(proxy, Action.HOLD, release=Release(after=(Selector("AddOffsetsToTxn"),)))
    link.send(link.end_txn(41, commit=False))
    second = proxy.link()
    second.send(second.add_offsets(16))
    link.answer(link.response("EndTxn", 41, "INVALID_TXN_STATE"))
    (changed,) = read(proxy).changed.values()
    assert changed.title == "EndTxn(abort) 41 of shop-1"
    assert words(changed) == [
        "sent, and held by late-end-txn",
        "its client's connection ended",
        "delivered to broker 1 when AddOffsetsToTxn request 16 was seen",
        "answered INVALID_TXN_STATE, which its client did not get",
    ]
    times = [step.at_ns for step in changed.steps()]
    assert times == sorted(times) and read(proxy).api_errors == {}  # its client had gone


def test_a_held_request_is_known_before_anything_comes_of_it(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    add(proxy, Action.HOLD, client=ClientConnection.STALL)
    link.send(link.end_txn(41))
    (changed,) = read(proxy).changed.values()
    assert words(changed) == ["sent, and held by late-end-txn"] and changed.answer == ""
    assert not changed.lost_client


@pytest.mark.parametrize(
    ("client", "gone"),
    [(ClientConnection.RESET, ["its client's connection ended"]), (ClientConnection.STALL, [])],
)
def test_a_dropped_request_was_never_delivered(
    proxy: ProxyUnderTest, link: LinkUnderTest, client: ClientConnection, gone: list[str]
) -> None:
    add(proxy, Action.DROP, client=client)
    link.send(link.end_txn(41))
    (changed,) = read(proxy).changed.values()
    assert words(changed) == ["sent, and dropped by late-end-txn", *gone]
    assert changed.lost_client is bool(gone)


def test_the_client_of_a_response_that_a_rule_dropped_is_still_there(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    add(proxy, Action.DROP, message="response", client=ClientConnection.STALL)
    link.send(link.end_txn(41))
    link.answer(link.response("EndTxn", 41))
    (changed,) = read(proxy).changed.values()
    assert not changed.lost_client and words(changed)[2] == "answered NONE"


def test_the_end_of_a_client_is_in_the_request_that_it_waited_for(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.end_txn(41))
    link.connection.client.connection_lost(None)
    link.answer(link.response("EndTxn", 41))
    proxy.state.journal.flush()
    (request,) = read_journal(proxy.journal_file, transactional_ids=["shop-1"]).passed
    assert request.lost_client and request.request.client_gone_ns is not None


def test_a_retry_is_the_next_request_if_it_asks_for_the_same(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    add(proxy, Action.HOLD, times=2, release=Release(after=(Selector("AddOffsetsToTxn"),)))
    link.send(link.end_txn(41))
    second = proxy.link()
    second.send(second.end_txn(8) + second.produce(9) + second.add_offsets(10))
    link.answer(link.response("EndTxn", 41))
    second.send(second.end_txn(11))  # held in the next transaction: the one after it does not repeat it
    third = proxy.link()
    third.send(third.add_offsets(12) + third.end_txn(13))
    second.answer(second.response("EndTxn", 11))
    for each in (link, second, third):
        each.connection.close()
    proxy.state.journal.flush()
    journal = read_journal(proxy.journal_file, transactional_ids=["shop-1"])
    retries = {
        each.request.correlation: journal.retries().get(each.request.number) for each in journal.passed
    }
    assert {correlation: earlier.name for correlation, earlier in retries.items() if earlier} == {
        8: "EndTxn(commit) 41"
    }
    assert retries.keys() == {8, 9, 10, 12, 13}


def test_a_rule_without_a_name_is_a_rule(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(ProtocolRule("rule-1", Selector("EndTxn"), Action.ERROR, error="NOT_COORDINATOR"))
    link.send(link.end_txn(41))
    (changed,) = read(proxy).changed.values()
    assert changed.action == "answered by a rule"
    assert words(changed)[-1] == "answered NOT_COORDINATOR by a rule, and never delivered"


def test_a_dropped_response_is_the_answer_of_the_broker(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    add(proxy, Action.DROP, message="response")
    link.send(link.end_txn(41))
    link.answer(link.response("EndTxn", 41, "NOT_COORDINATOR"))
    (changed,) = read(proxy).changed.values()
    assert words(changed) == [
        "sent",
        "delivered to broker 1",
        "answered NOT_COORDINATOR",
        "its response was dropped (late-end-txn)",
    ]
    assert read(proxy).api_errors == {}


def test_a_held_response_is_told_from_a_held_request(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    add(proxy, Action.HOLD, message="response")
    link.send(link.end_txn(41))
    link.answer(link.response("EndTxn", 41))
    proxy.heal("late-end-txn-3")
    (changed,) = read(proxy).changed.values()
    assert words(changed) == [
        "sent",
        "delivered to broker 1",
        "answered NONE",
        "its response was held (late-end-txn)",
        "its response was returned at the heal",
    ]


def test_a_copy_is_a_request_of_its_own(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    add(proxy, Action.DUPLICATE, release=Release(after_s=0.0))
    link.send(link.end_txn(41))
    proxy.wait(0.0)
    _, copy = link.broker.take()
    answers = (
        link.response("EndTxn", 41),
        link.response("EndTxn", int.from_bytes(copy[8:12]), "PRODUCER_FENCED"),
    )
    link.answer(b"".join(answers))
    original, made = read(proxy).changed.values()
    assert words(original) == [
        "sent",
        "delivered to broker 1",
        "copied by late-end-txn",
        "answered NONE",
    ]
    assert made.title == "copy of EndTxn(commit) of shop-1"
    assert words(made) == [
        "made by late-end-txn",
        "delivered to broker 1 after 0 s",
        "answered PRODUCER_FENCED",
    ]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (When.INSTEAD, ["sent", "answered NOT_COORDINATOR by late-end-txn, and never delivered"]),
        (When.AFTER, ["sent", "delivered to broker 1", "answered NOT_COORDINATOR instead of NONE"]),
    ],
)
def test_an_error_of_a_rule_is_told_from_the_answer_of_the_broker(
    proxy: ProxyUnderTest, link: LinkUnderTest, when: When, expected: list[str]
) -> None:
    add(proxy, Action.ERROR, error="NOT_COORDINATOR", when=when)
    link.send(link.end_txn(41))
    if when is When.AFTER:
        link.answer(link.response("EndTxn", 41))
    (changed,) = read(proxy).changed.values()
    assert words(changed) == expected
    assert read(proxy).api_errors == {"EndTxn": {"NOT_COORDINATOR": 1}}


def test_errors_are_counted_by_api_if_a_client_got_them(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    link.send(link.end_txn(1) + link.end_txn(2) + link.end_txn(3) + link.produce(4))
    link.answer(link.response("EndTxn", 1, "CONCURRENT_TRANSACTIONS") + link.response("EndTxn", 2))
    link.answer(link.response("EndTxn", 3, "CONCURRENT_TRANSACTIONS"))
    link.answer(link.response("Produce", 4, "NOT_ENOUGH_REPLICAS"))
    assert read(proxy).api_errors == {
        "EndTxn": {"CONCURRENT_TRANSACTIONS": 2},
        "Produce": {"NOT_ENOUGH_REPLICAS": 1},
    }


def test_errors_between_brokers_are_not_those_of_clients(tmp_path: Path) -> None:
    journal = ProxyJournal(tmp_path / JOURNAL)
    for number, source in enumerate(("peer:1->2:int", "client:w0->2"), 1):
        request = end_txn(number, 1.0, returned_ns=at(1.1), errors=("NOT_COORDINATOR",))
        request.link = source
        journal.write_request(request)
    journal.flush()
    assert read_journal(tmp_path / JOURNAL).api_errors == {"EndTxn": {"NOT_COORDINATOR": 1}}


def test_a_damaged_line_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    write_held_requests(tmp_path, "shop-2", "shop-3")
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"request": {"rule": 7}}\n{"requ')
    journal = read_journal(tmp_path / JOURNAL)
    assert len(journal.changed) == 2 and journal.damaged == 2


def test_further_requests_are_counted_and_can_be_selected(tmp_path: Path) -> None:
    write_held_requests(tmp_path, *["shop-1"] * MAX_REQUESTS, "shop-2")
    journal = read_journal(tmp_path / JOURNAL)
    assert (len(journal.changed), journal.more) == (MAX_REQUESTS, 1)
    of_one = read_journal(tmp_path / JOURNAL, transactional_ids=["shop-2"])
    (changed,) = of_one.changed.values()
    assert changed.request.number == MAX_REQUESTS + 1 and not of_one.more


def test_times_count_from_the_start_of_the_run(tmp_path: Path) -> None:
    write_held_requests(tmp_path, "shop-2")
    journal = read_journal(tmp_path / JOURNAL, ZERO_NS)
    (changed,) = journal.changed.values()
    assert changed.describe() == (
        "EndTxn(abort) 41 of shop-2: at 3.214 s sent, and held by late-end-txn; "
        "at 4.414 s delivered to broker 2 when AddOffsetsToTxn request 16 was seen; "
        "at 4.420 s answered NONE, which its client did not get"
    )
    assert journal.under_way(["shop-2"], 4.41e9, 5e9) == [changed]
    for others in (
        journal.under_way(["shop-1"]),
        journal.under_way(from_ns=4.43e9),
        journal.under_way(to_ns=3e9),
    ):
        assert not others


def test_a_connection_that_the_broker_closed_is_told(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    add(proxy, Action.HOLD)
    link.send(link.end_txn(41))
    link.connection.broker.connection_lost(None)
    (changed,) = read(proxy).changed.values()
    assert words(changed)[-1] == "the broker closed the connection before it answered"


def test_a_journal_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / JOURNAL) == ProtocolJournal()


def test_a_rule_without_a_number_keeps_its_name() -> None:
    changed = JournaledRequest(
        end_txn(1, 1.0, rule="slow-response"), [RuleEvent("slow-response", "held", 0, 1, "")]
    )
    assert changed.rule == "slow-response"


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    journal = ProxyJournal(tmp_path / JOURNAL)
    for number in (1, 2):
        journal.write_request(end_txn(number, 1.0))
    journal.flush()
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole[:-9])
    assert [request.number for request in read_requests(tmp_path / JOURNAL, 0)] == [1]
