"""stale-coordinator: answer FindCoordinator with a broker that is not the coordinator, as after a failover.

An EndTxn of a transactional id is answered with NOT_COORDINATOR, so its client asks for the coordinator. The response
names another broker, at the address at which this client reaches it. That broker must refuse the client's requests with
NOT_COORDINATOR, and the client must ask again.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.common.errors import FaultFailed
from harness.network import ApplyRule, client_links_by_broker
from harness.network.ruled import RuleInForce
from harness.protocol.rules import Action, ProtocolRule, Scalar, Selector
from harness.record.protocol_journal import RequestRecord
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault, Resource
from nemeses.aiming.roles import await_broker_in_role
from nemeses.aiming.targets import any_txn_coordinator, broker_in_role
from nemeses.effects.rules import HOLD_S, LINKS, name_rules

TO_COORDINATOR = frozenset({"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"})
"""The requests that a client sends only to the coordinator of its transactional id."""
GOAL = "stale-coordinator"


def make_client_ask(planned: PlannedFault) -> ProtocolRule:
    """Return the rule that makes the client ask for its coordinator."""
    select = Selector("EndTxn", transactional_id=planned.target.name)
    return ProtocolRule("ask-for-coordinator", select, Action.ERROR, error="NOT_COORDINATOR")


def name_broker(transactional_id: str, broker: int, address: str) -> ProtocolRule:
    """Return the rule by which FindCoordinator names a broker. Since version 4 the response has a list (KIP-699)."""
    host, _, port = address.rpartition(":")
    fields: dict[str, Scalar] = {"NodeId": broker, "Host": host, "Port": int(port)}
    return ProtocolRule(
        "stale-coordinator",
        Selector("FindCoordinator", "response", transactional_id=transactional_id, error="NONE"),
        Action.EDIT,
        set_fields=fields | {f"Coordinators.{name}": value for name, value in fields.items()},
    )


@contextmanager
def stale_coordinator(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Name another broker. The fault acted if that broker then refused a request of the client."""
    cluster, own_id = context.cluster, planned.target.name
    links = [link for link in cluster.network.links if link.startswith(LINKS["client"])]
    endpoints = dict.fromkeys(link.removeprefix("client:").partition("->")[0] for link in links)
    coordinator = await_broker_in_role(context, broker_in_role(cluster, planned.target), planned.target)
    others = [
        broker for broker in client_links_by_broker(next(iter(endpoints), ""), links) if broker != coordinator
    ]
    if not others:
        raise FaultFailed(f"the clients of this cluster have no link to a broker other than {coordinator}")
    stale = others[0]
    effect = InjectedFault(target=f"FindCoordinator responses of {own_id}")
    effect.details |= {"transactional_id": own_id, "broker": str(stale)}
    effect.mark_injected()
    in_force = []
    with ExitStack() as stack:
        for endpoint in endpoints:
            own_links = client_links_by_broker(endpoint, links)
            addresses = dict(zip(own_links, cluster.bootstrap_for(endpoint).split(","), strict=True))
            rule = name_broker(own_id, stale, addresses[stale])
            in_force.append(
                stack.enter_context(cluster.network.impose([*own_links.values()], ApplyRule(rule)))
            )
        asking = stack.enter_context(cluster.network.impose(links, ApplyRule(make_client_ask(planned))))
        name_rules(effect, [*in_force, asking])
        yield effect
    edits = [words for each in in_force if (words := each.evidence())]
    if not edits:
        effect.unmet_goals[GOAL] = asking.missing_proof or in_force[0].missing_proof
        return
    effect.proof += [*filter(None, [asking.evidence()]), *edits]
    assert isinstance(asking, RuleInForce)
    _prove_refusal(effect, stale, [each for each in asking.requests() if own_id in each.transactional_ids])


def _prove_refusal(effect: InjectedFault, stale: int, requests: list[RequestRecord]) -> None:
    """Add the first request that the stale broker has refused, and the first that another has carried out after it."""
    sent = [each for each in requests if each.api in TO_COORDINATOR and each.delivered_ns is not None]
    refused = [each for each in sent if each.broker == str(stale) and "NOT_COORDINATOR" in each.errors]
    if not refused:
        effect.unmet_goals[GOAL] = f"{'; '.join(effect.proof)}; but no request was sent to broker {stale}"
        return
    effect.add_proof(f"{refused[0]}, was sent to broker {stale}, which answered NOT_COORDINATOR")
    done = [
        each
        for each in sent
        if each.seen_ns > refused[0].seen_ns and each.broker != str(stale) and not each.errors
    ]
    if done:
        effect.add_proof(f"{done[0]}, was sent to broker {done[0].broker}, which answered NONE")


NEMESIS = Nemesis(
    name="stale-coordinator",
    summary="answer FindCoordinator with a broker that is not the coordinator of a transactional id",
    past_tense="named a broker that is not the coordinator",
    proves="the client sent a request to that broker, which answered NOT_COORDINATOR",
    needs=frozenset({ApplyRule}),
    occupies=lambda planned: frozenset({Resource.MESSAGES}),
    hold_s=HOLD_S,
    recovery_s=1.0,
    draw=any_txn_coordinator,
    inject=stale_coordinator,
    by_default=False,
    least_brokers=2,
    rule=make_client_ask,
    links="client",
)
