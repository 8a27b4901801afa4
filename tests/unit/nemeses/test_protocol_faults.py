"""Each fault that is a rule acts on the messages of a transaction, and on none where its message is not sent."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from fencepost.registry import aim
from harness.protocol.rules import ProtocolRule
from harness.runner.nemesis import PlannedFault, Target
from nemeses.registry import NEMESES
from tests.support.fake_run import fake_run
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest
from tests.unit.harness.test_schedule import TARGETS

OF_ONE_ID = "stale-coordinator"  # it acts on the messages of the transactional id that was drawn
RULES = {name: nemesis for name, nemesis in NEMESES.items() if nemesis.rule is not None and name != OF_ONE_ID}
Step = Callable[[LinkUnderTest], tuple[bytes, str]]
"""Returns a request, and the name of its API."""


def rule_of(option: str) -> ProtocolRule:
    nemesis = aim(option, NEMESES)
    drawn = nemesis.draw_fault(Random(1), TARGETS)
    assert nemesis.rule is not None
    planned = PlannedFault(nemesis.name, drawn.target, 0.0, 1.0, drawn.parameters)
    return structs.replace(nemesis.rule(PlannedFault.from_table(planned.as_table())), name="r")


def requests(link: LinkUnderTest, correlation: int, *, commit: bool) -> Iterator[tuple[bytes, str]]:
    """Yield the requests of one transaction in order."""
    yield link.add_partitions(correlation), "AddPartitionsToTxn"
    yield link.produce(correlation + 1), "Produce"
    yield link.produce(correlation + 2), "Produce"
    yield link.add_offsets(correlation + 3), "AddOffsetsToTxn"
    yield link.commit_offsets(correlation + 4), "TxnOffsetCommit"
    yield link.end_txn(correlation + 5, commit=commit), "EndTxn"


def play(proxy: ProxyUnderTest, *, markers: bool = False) -> list[str]:
    """Play three transactions of a client that connects and sends again where its connection is closed.

    Return what the rule did.
    """
    connections = [proxy.link()]
    for number, commit in enumerate([False, True, True]):
        for content, api in requests(connections[-1], 10 * number, commit=commit):
            connections[-1].send(content)
            if connections[-1].client.closed:
                connections.append(proxy.link())
                connections[-1].send(content)
            answer_all(connections)
            assert api
        if markers:
            connections[-1].send(connections[-1].write_markers(10 * number + 9))
            answer_all(connections)
    proxy.wait(10.0)
    answer_all(connections)
    proxy.heal()
    answer_all(connections)
    return [event.words for event in proxy.events]


def answer_all(connections: list[LinkUnderTest]) -> None:
    """Answer everything that has arrived, as long as more arrives."""
    names = {
        0: "Produce",
        24: "AddPartitionsToTxn",
        25: "AddOffsetsToTxn",
        26: "EndTxn",
        27: "WriteTxnMarkers",
    }
    arrived = True
    while arrived:
        arrived = False
        for connection in connections:
            for message in connection.broker.take():
                arrived = True
                api = names.get(int.from_bytes(message[4:6]), "TxnOffsetCommit")
                connection.answer(connection.response(api, int.from_bytes(message[8:12])))


@pytest.mark.parametrize("name", RULES)
def test_it_acts_on_the_messages_of_transactions(name: str, tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(rule_of(name))
    words = play(proxy, markers=NEMESES[name].links == "peer")
    assert words
    if name.startswith("late-"):
        assert "was answered NONE" in words[-1]
        assert any("was delivered" in each for each in words)


@pytest.mark.parametrize("name", RULES)
def test_it_does_not_act_where_its_message_is_not_sent(name: str, tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(rule_of(name))
    link = proxy.link()
    link.send(link.produce(1, own_id=None) if rule_of(name).select.api != "Produce" else link.add_offsets(1))
    assert len(link.broker.take()) == 1
    assert proxy.status().acted == 0 and not proxy.status().words


def test_the_late_end_of_an_aborted_transaction_ends_the_next_one(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(rule_of("late-end-txn"))
    words = play(proxy)
    assert words[0].endswith("correlation 5: held")
    assert "was delivered when AddOffsetsToTxn request 13 was seen" in words[1]


def test_the_late_end_of_a_client_that_adds_no_offsets_arrives_before_its_offsets(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(rule_of("late-end-txn"))
    first = proxy.link()
    first.send(first.end_txn(1, commit=False))
    second = proxy.link()
    second.send(second.end_txn(2, commit=False))
    second.answer(second.response("EndTxn", 2))
    second.send(second.commit_offsets(3))
    assert first.broker.take() == [first.end_txn(1, commit=False)]
    assert "was delivered when TxnOffsetCommit request 3 was seen" in proxy.events[-1].words


@pytest.mark.processes
def test_the_fault_makes_transactions_abort_whose_end_it_holds(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        run.cluster.network.links = ["client:w0->1"]
        nemesis = NEMESES["late-end-txn"]
        drawn = nemesis.draw_fault(Random(1), TARGETS)
        planned = PlannedFault(nemesis.name, drawn.target, 0.0, 0.0, drawn.parameters)
        with nemesis.inject(run.context, planned):
            pass
        rules = [effect.rule for _, effect in run.cluster.network.imposed]
        assert [(rule.select.api, rule.action, rule.error) for rule in rules] == [
            ("TxnOffsetCommit", "error", "ILLEGAL_GENERATION"),
            ("EndTxn", "hold", ""),
        ]


@pytest.mark.parametrize(
    ("option", "api", "error"),
    [
        ("error-response", "EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("error-response@Produce:NOT_ENOUGH_REPLICAS", "Produce", "NOT_ENOUGH_REPLICAS"),
        ("error-response@InitProducerId", "InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("lost-response@Produce", "Produce", ""),
    ],
)
def test_it_can_be_aimed_at_an_api_and_an_error(option: str, api: str, error: str) -> None:
    rule = rule_of(option)
    assert (rule.select.api, rule.error) == (api, error)


@pytest.mark.processes
def test_a_rule_of_the_user_leaves_the_feeder_and_the_readers_alone(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        run.cluster.network.links = ["client:w0->1", "client:harness-clients->1", "peer:1->2:int"]
        for kind, expected in (("client", ["client:w0->1"]), ("peer", ["peer:1->2:int"])):
            parameters = {"api": "Produce", "action": "drop", "links": kind}
            planned = PlannedFault("rule", Target("rule", "drop"), 0.0, 0.0, parameters)
            with NEMESES["rule"].inject(run.context, planned):
                pass
            assert [link for link, _ in run.cluster.network.imposed] == expected
            run.cluster.network.imposed.clear()
