"""A request that a rule keeps is delivered when the transaction log shows the states of its release."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cluster import TransactionView
from harness.common.waiting import wait_for
from harness.network import ApplyRule
from harness.network.ruled import RuleInForce, apply_rule
from harness.protocol.rules import Action, ProtocolRule, Release, Selector
from harness.protocol.state import ProxyRequest, ReleaseOrder
from nemeses.effects.rules import releasing_by_state
from tests.support.fake_run import fake_run
from tests.support.protocol_link import OWN_ID, LinkUnderTest, ProxyProcess, ProxyUnderTest

pytestmark = pytest.mark.processes

ONGOING, COMPLETE, ABORTED = (
    TransactionView(state, 7, 0, partitions)
    for state, partitions in (
        ("Ongoing", (("out", 0),)),
        ("CompleteCommit", ()),
        ("CompleteAbort", ()),
    )
)


@contextmanager
def watched(
    folder: Path, states: tuple[str, ...], views: list[TransactionView]
) -> Iterator[tuple[LinkUnderTest, RuleInForce]]:
    """Keep an EndTxn until the transaction was in these states, while the coordinator shows these views in turn."""
    proxy = ProxyUnderTest(folder)
    link = proxy.link()
    rule = ProtocolRule("late", Selector("EndTxn"), Action.HOLD, release=Release(states=states))
    with (
        fake_run(folder) as run,
        apply_rule(ProxyProcess(proxy), [link.connection.link], ApplyRule(rule)) as kept,
    ):
        run.cluster.transactions[OWN_ID] = views
        link.send(link.end_txn(5, commit=False))
        assert not link.broker.written
        with releasing_by_state(run.context, kept):
            yield link, kept
        link.answer(link.response("EndTxn", 5, "INVALID_TXN_STATE"))


@pytest.mark.parametrize(
    ("states", "views", "last"),
    [
        (("CompleteAbort",), [ONGOING, ONGOING, ABORTED, ONGOING], "CompleteAbort with no partition"),
        (("Ongoing",), [ONGOING], "Ongoing with out/0"),
        (("CompleteAbort", "Ongoing"), [ONGOING, ABORTED, ABORTED, ONGOING, COMPLETE], "Ongoing with out/0"),
    ],
)
def test_it_is_delivered_when_its_transaction_is_in_the_state(
    states: tuple[str, ...], views: list[TransactionView], last: str, tmp_path: Path
) -> None:
    with watched(tmp_path, states, views) as (link, kept):
        wait_for(lambda: link.broker.written, "the request to be delivered", 5.0)
        assert not kept.status.await_states
    assert f"EndTxn of shop-1, correlation 5 was delivered when its transaction was {last}" in kept.evidence()
    assert "was answered INVALID_TXN_STATE" in kept.evidence()


def test_without_the_state_it_is_delivered_at_the_heal_and_did_not_act(tmp_path: Path) -> None:
    views = [COMPLETE, ONGOING, ONGOING]
    with watched(tmp_path, ("CompleteAbort", "Ongoing"), views) as (link, kept):
        wait_for(lambda: len(views) == 1, "the coordinator to show the second view", 5.0)
        assert not link.broker.written
    assert link.broker.take() == [link.end_txn(5, commit=False)]
    assert (
        "was delivered at the heal, because its transaction was not seen in CompleteAbort: "
        "it was last Ongoing with out/0"
    ) in kept.missing_proof
    assert not kept.evidence()


def test_a_transaction_that_no_coordinator_knows_releases_nothing(tmp_path: Path) -> None:
    with watched(tmp_path, ("Ongoing",), []) as (_, kept):
        pass
    assert "was not seen in Ongoing: it was last not known" in kept.missing_proof


def test_a_rule_without_a_state_awaits_none(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(ProtocolRule("r", Selector("EndTxn"), Action.HOLD))
    link = proxy.link()
    link.send(link.end_txn(1))
    assert proxy.status().kept == 1 and not proxy.status().await_states


def test_an_order_of_the_run_delivers_only_the_request_that_it_names(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    proxy.add(
        ProtocolRule("r", Selector("EndTxn"), Action.HOLD, times=2, release=Release(states=("Ongoing",)))
    )
    links = [proxy.link(), proxy.link()]
    for link, own_id in zip(links, ("a", "b"), strict=True):
        link.send(link.end_txn(1, own_id=own_id))
    first, second = proxy.status().await_states
    assert (first.transactional_id, second.transactional_id) == ("a", "b")
    status = proxy.state.answer_about_rule(ProxyRequest(release=ReleaseOrder("r", second.number, "now")))
    assert not links[0].broker.take() and links[1].broker.take() == [links[1].end_txn(1, own_id="b")]
    assert status.await_states == (first,)
    assert (
        proxy.state.answer_about_rule(ProxyRequest(release=ReleaseOrder("x", 1, "now"))).error
        == "there is no rule x"
    )
