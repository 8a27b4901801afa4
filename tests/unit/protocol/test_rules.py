"""What each action of a rule does to the messages of a link."""

import json
from pathlib import Path

import pytest

from harness.model.kafka_protocol import error_codes
from harness.protocol.frames import encode_response, names_in
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest


@pytest.fixture
def proxy(tmp_path: Path) -> ProxyUnderTest:
    return ProxyUnderTest(tmp_path)


@pytest.fixture
def link(proxy: ProxyUnderTest) -> LinkUnderTest:
    return proxy.link()


def rule(action: Action, api: str = "EndTxn", **fields: object) -> ProtocolRule:
    message = fields.pop("message", "request")
    return ProtocolRule("r", Selector(api, message), action, **fields)  # type: ignore[arg-type]


def test_without_a_rule_every_byte_passes(link: LinkUnderTest) -> None:
    requests = link.produce(1) + link.end_txn(2) + link.end_txn(3, version=4)
    link.send(requests)
    assert link.broker.written == requests
    answers = link.response("Produce", 1) + link.response("EndTxn", 2)
    link.answer(answers)
    assert link.client.written == answers


def produce_by_id(link: LinkUnderTest, correlation: int, topic_id: bytes) -> bytes:
    """Return a Produce request that names its topic by id, as Produce does since version 13."""
    topics = [{"TopicId": topic_id, "PartitionData": [{"Index": 0, "Records": b"r"}]}]
    return link.request(
        "Produce", 13, correlation, {"TransactionalId": None, "Acks": -1, "TopicData": topics}
    )


def metadata(link: LinkUnderTest, correlation: int, topics: dict[bytes, str | None]) -> bytes:
    api = link.schemas.api("Metadata")
    body = {"Topics": [{"Name": name, "TopicId": topic_id} for topic_id, name in topics.items()]}
    return encode_response(link.schemas, api, 12, correlation, body)


def test_a_rule_selects_a_topic_by_name_where_messages_have_its_id(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    invoices, payments, lost = bytes([1]) * 16, bytes([2]) * 16, bytes([3]) * 16
    link.send(link.request("Metadata", 12, 1, {}))
    topics = {invoices: "invoices", payments: "payments", lost: None}
    link.answer(metadata(link, 1, topics))
    assert link.client.take() == [metadata(link, 1, topics)]
    fields = {"TopicData.Name": "invoices"}
    proxy.add(
        ProtocolRule("r", Selector("Produce", fields=fields), Action.DROP, client=ClientConnection.STALL)
    )
    link.broker.take()
    for number, topic_id in enumerate((payments, lost, bytes(16))):
        link.send(produce_by_id(link, number, topic_id))
        assert link.broker.take() == [produce_by_id(link, number, topic_id)]
    link.send(produce_by_id(link, 7, invoices))
    assert not link.broker.take() and proxy.status().proved == 1


def test_a_message_whose_topic_was_named_by_its_id_is_refused_by_that_id(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.request("Metadata", 12, 1, {}))
    link.answer(metadata(link, 1, {bytes([1]) * 16: "invoices"}))
    error = "NOT_LEADER_OR_FOLLOWER"
    proxy.add(ProtocolRule("r", Selector("Produce"), Action.ERROR, error=error))
    # Because of this rule, the proxy adds the name of the topic.
    proxy.add(ProtocolRule("other", Selector("EndTxn", fields={"Committed": False}), Action.DROP))
    link.client.take()
    link.send(produce_by_id(link, 2, bytes([1]) * 16))
    (answer,) = link.client.take()
    body, _ = link.schemas.api("Produce").response.decode(memoryview(answer), 13, 9)
    (topic,) = body["Responses"]
    assert topic["TopicId"] == bytes([1]) * 16 and "Name" not in topic
    assert topic["PartitionResponses"][0]["ErrorCode"] == error_codes()[error]
    assert proxy.status().proved == 1


def test_a_message_whose_topic_was_named_by_its_id_is_edited_as_it_came(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.request("Metadata", 12, 1, {}))
    link.answer(metadata(link, 1, {bytes([1]) * 16: "invoices"}))
    link.broker.take()
    select = Selector("Produce", fields={"TopicData.Name": "invoices"})
    proxy.add(ProtocolRule("r", select, Action.EDIT, set_fields={"Acks": 1}))
    link.send(produce_by_id(link, 2, bytes([1]) * 16))
    assert link.broker.take() == [produce_by_id(link, 2, bytes([1]) * 16).replace(b"\xff\xff", b"\x00\x01")]


def test_a_held_request_is_delivered_after_its_client_has_gone(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD))
    link.send(link.end_txn(1))
    assert link.client.closed and not link.broker.closed and not link.broker.take()
    status = proxy.heal()
    assert link.broker.take() == [link.end_txn(1)] and (status.kept, status.proved) == (1, 0)
    link.answer(link.response("EndTxn", 1, "INVALID_TXN_STATE"))
    assert link.broker.closed and not link.client.take()
    status = proxy.heal()
    assert status.proved == 1
    assert status.words == (
        "EndTxn of shop-1, correlation 1: held",
        "EndTxn of shop-1, correlation 1 was delivered at the heal",
        "EndTxn of shop-1, correlation 1 was answered INVALID_TXN_STATE",
    )


def test_the_message_that_releases_waits_for_the_answer(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    release = Release(after=(Selector("EndTxn", "response"), Selector("AddOffsetsToTxn")))
    proxy.add(rule(Action.HOLD, release=release))
    link.send(link.end_txn(1, commit=False))
    second = proxy.link()
    second.send(second.end_txn(1, commit=False))  # the retry of the client: it is not held
    assert second.broker.take() == [second.end_txn(1, commit=False)]
    second.send(second.add_offsets(2, own_id="other"))  # of another producer
    second.answer(second.response("EndTxn", 1))
    assert not link.broker.take()
    second.broker.take()
    second.send(second.add_offsets(3))
    assert link.broker.take() == [link.end_txn(1, commit=False)] and not second.broker.take()
    link.answer(link.response("EndTxn", 1))
    assert second.broker.take() == [second.add_offsets(3)]


@pytest.mark.parametrize(
    ("action", "release", "reason"),
    [
        (Action.HOLD, Release(), ""),
        (
            Action.HOLD,
            Release(after=(Selector("AddOffsetsToTxn"),)),
            ", because no AddOffsetsToTxn request was seen",
        ),
        (Action.HOLD, Release(after_s=2.0), ", because 2 s had not passed"),
        (Action.DUPLICATE, Release(after_s=2.0), ", because 2 s had not passed"),
        (Action.SWAP, Release(), ", because no other of its kind had passed"),
    ],
)
def test_a_request_that_is_delivered_before_its_release_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, action: Action, release: Release, reason: str
) -> None:
    proxy.add(rule(action, release=release))
    link.send(link.end_txn(1))
    proxy.heal()
    for request in link.broker.take():
        link.answer(link.response("EndTxn", int.from_bytes(request[8:12])))
    status = proxy.heal()
    assert status.words[1].endswith(f"was delivered at the heal{reason}")
    assert (status.proved, status.missed) == ((0, 1) if reason else (1, 0))


def test_a_release_of_which_only_the_time_is_missing_has_not_come(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD, release=Release((Selector("AddOffsetsToTxn"),), 2.0), times=2))
    second = proxy.link()
    for each in (link, second):
        each.send(each.end_txn(1, own_id=each.connection.link))
        other = proxy.link()
        other.send(other.add_offsets(1, own_id=each.connection.link))
        proxy.wait(1.5)
    status = proxy.heal()
    link.answer(link.response("EndTxn", 1))
    second.answer(second.response("EndTxn", 1))
    status = proxy.heal()
    assert (status.proved, status.missed) == (1, 1)
    assert any(
        words.endswith("was delivered at the heal, because 2 s had not passed") for words in status.words
    )


def test_a_message_that_releases_waits_at_most_five_seconds(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD, release=Release(after=(Selector("AddOffsetsToTxn"),))))
    link.send(link.end_txn(1))
    second = proxy.link()
    second.send(second.add_offsets(1))
    assert not second.broker.take()
    proxy.wait(5.0)
    assert second.broker.take() == [second.add_offsets(1)]


def test_a_stalled_request_stops_its_connection_until_the_release(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD, client=ClientConnection.STALL, release=Release(after_s=2.0)))
    link.send(link.end_txn(1) + link.produce(2))
    assert not link.client.closed and not link.broker.take()
    proxy.wait(2.0)
    assert link.broker.take() == [link.end_txn(1), link.produce(2)]
    link.answer(link.response("EndTxn", 1))
    assert link.client.take() == [link.response("EndTxn", 1)]


def test_a_delayed_request_keeps_its_place(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DELAY, release=Release(after_s=0.5)))
    link.send(link.end_txn(1) + link.produce(2))
    proxy.wait(0.4)
    assert not link.broker.take()
    proxy.wait(0.2)
    assert link.broker.take() == [link.end_txn(1), link.produce(2)]


def test_a_delayed_response_keeps_its_place(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DELAY, message="response", release=Release(after_s=0.5)))
    link.send(link.end_txn(1) + link.produce(2))
    link.answer(link.response("EndTxn", 1) + link.response("Produce", 2))
    assert not link.client.take()
    proxy.wait(0.5)
    assert link.client.take() == [link.response("EndTxn", 1), link.response("Produce", 2)]


def test_a_held_request_that_gets_no_response_does_not_delay_the_heal(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.HOLD, api="Produce"))
    link.send(link.produce(1, acks=0))
    status = proxy.heal()
    assert link.broker.take() == [link.produce(1, acks=0)] and link.broker.closed
    assert (status.kept, status.proved) == (0, 0)


def test_a_rule_acts_on_no_message_after_the_heal(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.HOLD, times=None, client=ClientConnection.STALL))
    other = link.end_txn(2, own_id="shop-2")  # no retry of the first, which the rule would not hold either
    link.send(link.end_txn(1) + other)
    assert proxy.heal().kept == 1  # it waits for a response
    assert link.broker.take() == [link.end_txn(1), other]
    link.answer(link.response("EndTxn", 1))
    assert proxy.heal().acted == 1 and "r" not in proxy.state.rules


def test_a_dropped_request_never_arrives(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DROP, client=ClientConnection.STALL))
    link.send(link.end_txn(1) + link.produce(2))
    assert link.broker.take() == [link.produce(2)] and not link.client.closed
    link.answer(link.response("Produce", 2))
    assert link.client.take() == [link.response("Produce", 2)]


def test_a_dropped_response_leaves_the_request_carried_out(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.DROP, message="response", client=ClientConnection.STALL))
    link.send(link.end_txn(1) + link.produce(2))
    link.answer(link.response("EndTxn", 1) + link.response("Produce", 2))
    assert link.client.take() == [link.response("Produce", 2)]
    assert proxy.status().words == (
        "EndTxn of shop-1, correlation 1 was answered NONE, and its client never knew",
    )


def test_a_copy_is_answered_to_nobody(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DUPLICATE, release=Release(after_s=0.0)))
    link.send(link.end_txn(1))
    proxy.wait(0.0)
    original, copy = link.broker.take()
    assert original == link.end_txn(1) and copy[12:] == original[12:] and copy[8:12] != original[8:12]
    own = int.from_bytes(copy[8:12])
    link.answer(link.response("EndTxn", 1) + link.response("EndTxn", own, "INVALID_TXN_STATE"))
    assert link.client.take() == [link.response("EndTxn", 1)]
    assert proxy.status().words[-1].endswith("was answered INVALID_TXN_STATE")


def test_two_requests_of_one_connection_change_places(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.SWAP, api="Produce"))
    first, second = link.produce(1, size=11), link.produce(2, size=12)
    link.send(first + second)
    assert link.broker.take() == [second, first]
    link.answer(link.response("Produce", 2) + link.response("Produce", 1))
    assert link.client.take() == [link.response("Produce", 1), link.response("Produce", 2)]


def test_two_requests_of_two_connections_change_places(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.SWAP))
    other = proxy.link()
    link.send(link.end_txn(1))
    other.send(other.end_txn(1, own_id="shop-2"))
    assert other.broker.take() and link.broker.take() == [link.end_txn(1)]


def test_a_swap_that_met_no_other_request_is_no_proof(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.SWAP, release=Release(after_s=2.0)))
    link.send(link.end_txn(1))
    proxy.wait(2.0)
    link.answer(link.response("EndTxn", 1))
    assert link.client.take() == [link.response("EndTxn", 1)]
    assert (proxy.status().acted, proxy.status().proved) == (1, 0)


def test_an_error_instead_of_the_request(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.ERROR, error="NOT_COORDINATOR"))
    link.send(link.produce(1) + link.end_txn(2) + link.produce(3))
    assert link.broker.take() == [link.produce(1), link.produce(3)]
    link.answer(link.response("Produce", 1))
    produced, refused = link.client.take()  # in the order of the requests
    assert produced == link.response("Produce", 1)
    assert link.error_of(refused) == error_codes()["NOT_COORDINATOR"]


def test_an_error_after_the_request_was_carried_out(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.ERROR, api="Produce", error="NOT_ENOUGH_REPLICAS", when=When.AFTER))
    link.send(link.produce(1))
    assert link.broker.take() == [link.produce(1)]
    link.answer(link.response("Produce", 1))
    (answer,) = link.client.take()
    assert link.error_of(answer, "Produce", 10) == error_codes()["NOT_ENOUGH_REPLICAS"]
    assert proxy.status().words == (
        "Produce of shop-1, correlation 1 was answered NONE, and its client got NOT_ENOUGH_REPLICAS",
    )


@pytest.mark.parametrize("when", When)
def test_a_connection_is_closed_before_or_after_the_request(
    proxy: ProxyUnderTest, link: LinkUnderTest, when: When
) -> None:
    proxy.add(rule(Action.CLOSE, when=when))
    link.send(link.end_txn(1))
    assert link.client.closed and link.broker.take() == ([link.end_txn(1)] if when is When.AFTER else [])
    assert link.broker.closed is (when is When.INSTEAD)
    link.answer(link.response("EndTxn", 1))
    assert link.broker.closed and not link.client.take()


def test_a_field_of_a_request_is_changed(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.EDIT, set_fields={"ProducerEpoch": 9, "Committed": False}))
    link.send(link.end_txn(1))
    (changed,) = link.broker.take()
    assert changed[-3:] == b"\x00\x09\x00" and changed[:-3] == link.end_txn(1)[:-3]
    assert proxy.status().words == (
        "EndTxn of shop-1, correlation 1: it was changed: ProducerEpoch 0 became 9, Committed True became False",
    )


@pytest.mark.parametrize("fields", [{"ProducerEpoch": 0}, {"NoSuchField": 1}, {"No.Such": 1}])
def test_a_change_that_changes_nothing_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, fields: dict[str, int]
) -> None:
    proxy.add(rule(Action.EDIT, set_fields=fields))
    link.send(link.end_txn(1))
    assert link.broker.take() == [link.end_txn(1)]
    assert (proxy.status().acted, proxy.status().proved) == (1, 0)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (False, "at the heal, because no EndTxn response was seen"),
        (True, "at the heal, because no AddOffsetsToTxn request was seen"),
    ],
)
def test_a_release_that_never_comes_is_reported(
    proxy: ProxyUnderTest, link: LinkUnderTest, seen: bool, words: str
) -> None:
    release = Release(after=(Selector("EndTxn", "response"), Selector("AddOffsetsToTxn")))
    proxy.add(rule(Action.HOLD, release=release))
    link.send(link.end_txn(1))
    if seen:
        retry = proxy.link()
        retry.send(retry.end_txn(2))
        retry.answer(retry.response("EndTxn", 2))
    assert proxy.heal().words[-1] == f"EndTxn of shop-1, correlation 1 was delivered {words}"


@pytest.mark.parametrize("fields", [{"OfAnotherVersion": 1}, {"ProducerEpoch": 1 << 20}, {"Committed": True}])
def test_a_field_that_cannot_be_changed_is_left_and_proves_nothing(
    proxy: ProxyUnderTest, link: LinkUnderTest, fields: dict[str, int]
) -> None:
    proxy.add(rule(Action.EDIT, set_fields=fields))
    link.send(link.end_txn(1))
    assert link.broker.take() == [link.end_txn(1)] and proxy.status().proved == 0


@pytest.mark.parametrize("size", [9, 12])  # of its begin: too short to tell the request, and long enough
def test_a_correlation_id_that_is_used_twice_loses_no_response(
    proxy: ProxyUnderTest, link: LinkUnderTest, size: int
) -> None:
    answer = link.response("EndTxn", 1)
    link.send(link.end_txn(1))
    link.answer(answer[:size])
    proxy.add(rule(Action.ERROR, error="NOT_COORDINATOR"))
    link.send(link.end_txn(1))
    link.answer(answer[size:])
    refused, passed = link.client.take()
    assert link.error_of(refused) == error_codes()["NOT_COORDINATOR"] and passed == answer


def test_only_the_nth_and_the_following_are_taken(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DROP, nth=2, times=2, client=ClientConnection.STALL))
    link.send(b"".join(link.end_txn(number) for number in range(1, 6)))
    assert link.broker.take() == [link.end_txn(1), link.end_txn(4), link.end_txn(5)]
    assert (proxy.status().matched, proxy.status().acted) == (5, 2)


@pytest.mark.parametrize(
    ("select", "taken"),
    [
        (Selector("EndTxn"), True),
        (Selector("Produce"), False),
        (Selector("AddOffsetsToTxn|EndTxn"), True),
        (Selector("EndTxn", "response"), False),
        (Selector("EndTxn", transactional_id="shop-*"), True),
        (Selector("EndTxn", transactional_id="shop-2"), False),
        (Selector("EndTxn", client_id="client"), True),
        (Selector("EndTxn", client_id="other"), False),
        (Selector("EndTxn", group="g"), False),
        (Selector("EndTxn", fields={"Committed": True}), True),
        (Selector("EndTxn", fields={"Committed": False}), False),
        (Selector("EndTxn", fields={"NoSuchField": False}), False),
    ],
)
def test_a_selector_takes_what_it_names(
    proxy: ProxyUnderTest, link: LinkUnderTest, select: Selector, taken: bool
) -> None:
    proxy.add(ProtocolRule("r", select, Action.DROP, client=ClientConnection.STALL))
    link.send(link.end_txn(1))
    assert (not link.broker.take()) is taken
    assert proxy.status().acted == taken


def test_the_random_choice_is_that_of_the_seed(proxy: ProxyUnderTest) -> None:
    def passed(seed: int) -> list[bytes]:
        proxy.add(rule(Action.DROP, probability=0.5, seed=seed, times=None, client=ClientConnection.STALL))
        link = proxy.link()
        link.send(b"".join(link.end_txn(number) for number in range(40)))
        return link.broker.take()

    assert passed(1) == passed(1) != passed(2)
    assert 5 < len(passed(1)) < 35


def test_a_rule_knows_how_many_of_its_requests_came_before_it(proxy: ProxyUnderTest) -> None:
    first, second = proxy.link(), proxy.link()
    for link in (first, second):
        link.send(link.end_txn(1) + link.end_txn(2) + link.produce(3))
    select = Selector("EndTxn", transactional_id="nobody")
    proxy.add(ProtocolRule("r", select, Action.DROP, links=(first.connection.link,)))
    assert (proxy.status().seen_before, proxy.status().seen) == (2, 0)
    for link in (first, second):
        link.send(link.end_txn(4) + link.produce(5))
    assert (proxy.status().seen_before, proxy.status().seen, proxy.status().matched) == (2, 1, 0)


def test_a_rule_acts_only_on_its_links(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    other = proxy.link()
    proxy.add(rule(Action.DROP, times=None, client=ClientConnection.STALL, links=(other.connection.link,)))
    link.send(link.end_txn(1))
    other.send(other.end_txn(1))
    assert link.broker.take() and not other.broker.take()


def test_a_broker_that_closes_the_connection_is_noted(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.HOLD))
    link.send(link.end_txn(1))
    link.connection.broker.connection_lost(None)
    assert proxy.status().words[-1] == (
        "EndTxn of shop-1, correlation 1: the broker closed the connection before it answered"
    )
    status = proxy.heal()
    assert (status.acted, status.proved, status.kept) == (1, 0, 0)


def test_what_cannot_be_decoded_passes_unchanged(proxy: ProxyUnderTest, link: LinkUnderTest) -> None:
    proxy.add(rule(Action.DROP))
    damaged = link.end_txn(1)[:-3]
    damaged = (len(damaged) - 4).to_bytes(4) + damaged[4:]
    link.send(
        damaged
        + link.request(
            "EndTxn", 1, 2, {"TransactionalId": "x", "ProducerId": 1, "ProducerEpoch": 1, "Committed": True}
        ).replace(b"\x00\x1a\x00\x01", b"\x00\x1a\x00\x63", 1)
    )
    assert len(link.broker.take()) == 2 and proxy.status().acted == 0


def test_a_produce_without_acknowledgement_gets_no_response(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    link.send(link.produce(1, acks=0) + link.end_txn(2))
    link.answer(link.response("EndTxn", 2))
    assert link.client.take() == [link.response("EndTxn", 2)]


def test_the_journal_has_each_request_with_its_times_and_no_body(
    proxy: ProxyUnderTest, link: LinkUnderTest
) -> None:
    proxy.add(rule(Action.DROP, message="response", client=ClientConnection.STALL))
    link.send(link.produce(1) + link.end_txn(2))
    link.answer(link.response("Produce", 1, "NOT_ENOUGH_REPLICAS") + link.response("EndTxn", 2))
    proxy.state.journal.flush()
    lines = [json.loads(line) for line in proxy.journal_file.read_text().splitlines()]
    produce, end = (line["request"] for line in lines if "request" in line)
    assert produce["transactional_ids"] == ["shop-1"] and produce["errors"] == ["NOT_ENOUGH_REPLICAS"]
    assert produce["seen_ns"] <= produce["delivered_ns"] <= produce["answered_ns"] <= produce["returned_ns"]
    assert end["answered_ns"] and end["returned_ns"] is None and end["rule"] == "r"
    assert b"rrrrrrrrrr" not in proxy.journal_file.read_bytes()


def test_a_request_with_null_in_place_of_a_name_has_no_name(proxy: ProxyUnderTest) -> None:
    api = proxy.schemas.api("FindCoordinator")
    assert names_in(api, {"KeyType": 1, "Key": None}) == ((), ())
    assert names_in(api, {"KeyType": 0, "CoordinatorKeys": [None, "g"]}) == ((), ("g",))
