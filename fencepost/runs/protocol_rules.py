"""The protocol rules of a run, and the links on which the protocol proxy must be.

Rules are planned from `--rule`, and refused before the run if they can never act.
"""

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fencepost import registry
from harness.cluster import Ability, Need, describe_needs
from harness.cluster.kinds.registry import CLUSTERS, abilities_of
from harness.common.errors import UsageError
from harness.common.wording import on_one_line
from harness.environment.versions import kafka_version
from harness.model.kafka_protocol import BROKER, Sender, why_never_sent
from harness.model.pipeline import PipelineSpec
from harness.network import ApplyRule
from harness.protocol.rule_checks import require_possible
from harness.protocol.rule_options import Table, parse_rule, rule_of
from harness.protocol.rules import Action, Selector
from harness.protocol.schemas import Schemas
from harness.runner.nemesis import Nemesis, PlannedFault, Target
from harness.settings.kinds import ClientChoice
from harness.settings.options import Options
from nemeses.effects.rules import LINKS
from workloads.defects import policy_of

if TYPE_CHECKING:
    from harness.environment.kafka import KafkaDistribution

ENDING_S = 2.0
"""How long a client needs to end a transaction whose records it has given up."""


def planned_rules(options: Options) -> list[PlannedFault]:
    """The faults of `--rule`. A rule without a duration is in force until the time limit. Raises `UsageError`."""
    return [planned_rule(options, parse_rule(text)) for text in options.rule]


def planned_rule(options: Options, table: Table) -> PlannedFault:
    """The fault of a rule that is a flat table. Raises `UsageError`."""
    spec = rule_of(table)
    needs: set[Need] = {ApplyRule, *([Ability.PEER_LINKS] if spec.links == "peer" else [])}
    if not needs <= abilities_of(options):
        raise UsageError(
            f"a rule needs a cluster on which one can {describe_needs(needs - abilities_of(options))}: "
            "choose --cluster local"
        )
    if spec.start_s >= options.time_limit_s:
        raise UsageError(
            f"a rule: start_s is {spec.start_s:g}, and the run ends after {options.time_limit_s:g} s: "
            "write a smaller start_s, or choose a longer --time-limit"
        )
    if spec.hold_s is not None and spec.hold_s > options.time_limit_s:
        raise UsageError(
            f"a rule: hold_s is {spec.hold_s:g}, and the run ends after {options.time_limit_s:g} s: "
            "write a smaller hold_s, or choose a longer --time-limit"
        )
    hold_s = spec.hold_s if spec.hold_s is not None else options.time_limit_s - spec.start_s
    after_s, action = spec.rule.release.after_s, spec.rule.action
    if after_s is not None and after_s >= hold_s and action is not Action.SWAP:
        name = "delay_s" if action is Action.DELAY else "release.after_s"
        raise UsageError(
            f"a rule: {name} is {after_s:g}, but the rule is in force for {hold_s:g} s, and its heal "
            f"delivers what it keeps: write a smaller {name}, or a larger hold_s or --time-limit"
        )
    own = {name: value for name, value in table.items() if name not in ("start_s", "hold_s")}
    if "probability" in own:
        own.setdefault("seed", options.seed or 0)
    target = Target("rule", f"{spec.rule.action} {spec.rule.select}")
    return PlannedFault("rule", target, spec.start_s, hold_s, own)


def links_of(fault: PlannedFault, nemeses: Mapping[str, Nemesis]) -> str:
    """The kind of links that must pass through the protocol proxy for a fault: client, peer, or empty."""
    return str(fault.parameters.get("links", nemeses[fault.fault].links))


def decoded_links(
    options: Options, pipeline: PipelineSpec, faults: Collection[PlannedFault]
) -> tuple[str, ...]:
    """How the names of the links begin that must pass through the protocol proxy for these faults."""
    if ApplyRule not in abilities_of(options):
        return ()
    nemeses = registry.planned_nemeses()
    kinds = {links_of(fault, nemeses) for fault in faults} - {""}
    if any(_discovers(fault, nemeses[fault.fault], pipeline) for fault in faults):
        kinds.add("client")
    return tuple(LINKS[kind] for kind in sorted(kinds))


def _discovers(fault: PlannedFault, nemesis: Nemesis, pipeline: PipelineSpec) -> bool:
    """Return whether a fault learns the ids of its target from the protocol proxy."""
    in_transaction = fault.state is not None or fault.preferred_state is not None
    without_ids = {stage.name for stage in pipeline.stages if stage.has_unknown_ids}
    return nemesis.discovers_members or (
        nemesis.discovers_ids and in_transaction and fault.target.name.partition("/")[0] in without_ids
    )


def require_known_messages(faults: Collection[PlannedFault], kafka: "KafkaDistribution") -> None:
    """Raise `UsageError` if a rule names what the messages of the cluster's version of Kafka do not have."""
    nemeses = registry.planned_nemeses()
    for fault in faults:
        if fault.fault == "rule":
            require_possible(rule_of(fault.parameters).rule, Schemas.of_jar(kafka.clients_jar))
        elif (make_rule := nemeses[fault.fault].rule) is not None:
            require_possible(make_rule(fault), Schemas.of_jar(kafka.clients_jar), fault.fault)


def require_sent(options: Options, pipeline: PipelineSpec, faults: Collection[PlannedFault]) -> None:
    """Raise `UsageError` if a rule waits for a request that the chosen client or the brokers never send.

    Nothing is known about the clients of a user's own program, so nothing is refused for them.
    """
    nemeses = registry.planned_nemeses()
    for fault in faults:
        links = links_of(fault, nemeses)
        if links == "client" and not pipeline.journaled:
            continue
        sender = Sender(BROKER) if links == "peer" else _client_of(options, pipeline)
        for selector in _awaited(fault, nemeses):
            reasons = [why_never_sent(api, sender) for api in selector.apis]
            if all(reasons):
                raise UsageError(f"{fault.fault} would never act, because {reasons[0]}")


def require_time_to_give_up(pipeline: PipelineSpec, faults: Collection[PlannedFault]) -> None:
    """Raise `UsageError` if a fault keeps the records of a transaction for less time than its client waits for them.

    The fault delivers the records when their transaction has ended without them. A client that gets no response, also
    to its retries, ends it only after the transaction time-out.
    """
    nemeses = registry.planned_nemeses()
    time_outs_s = [stage.txn_timeout_ms / 1000 for stage in pipeline.stages if stage.txn_timeout_ms]
    for fault in faults:
        make_rule = nemeses[fault.fault].rule
        keeps_retries = make_rule is not None and make_rule(fault).holds_retries
        if keeps_retries and time_outs_s and fault.hold_s <= min(time_outs_s) + ENDING_S:
            remedy = (
                f"choose --set txn-timeout={max(1, int(fault.hold_s - ENDING_S - 1))}"
                if pipeline.journaled
                else "let the program use a shorter one, and say so by transaction_timeout_s"
            )
            raise UsageError(
                f"{fault.fault} would never act: it lasts {fault.hold_s:g} s, and a client gives up its records after "
                f"the transaction time-out, {min(time_outs_s):g} s: {remedy}, "
                "or write a longer hold_s into a --schedule"
            )


def require_known_names(
    options: Options, pipeline: PipelineSpec, faults: Collection[PlannedFault], tag: str
) -> None:
    """Raise `UsageError` if a rule is for a transactional id or a group that no stage of a workload has.

    The names of a user's own program are not known, and a defect may change transactional ids, so nothing is refused
    for these. `tag` is one with which the names of the pipeline begin; empty: they have none.
    """
    if not pipeline.journaled:
        return
    known = {"group": {stage.group for stage in pipeline.stages if stage.group is not None}}
    if policy_of(options.defect).stable_id:
        known["transactional_id"] = {
            own for stage in pipeline.stages for own in stage.transactional_ids.values()
        }
    for fault in faults:
        if fault.fault != "rule":
            continue
        select = rule_of(fault.parameters).rule.select
        for key, names in known.items():
            pattern = getattr(select, key)
            if pattern is None or any(fnmatchcase(name, pattern) for name in names):
                continue
            shown = sorted(name.replace(f"{tag}-", "*") if tag else name for name in names)
            instead = f"write one of {', '.join(shown[:12])}" if shown else f"leave out {key}"
            raise UsageError(
                f'a rule: {key} is "{on_one_line(pattern)}", and no stage of {pipeline.name} has such a name: {instead}'
            )


def _awaited(fault: PlannedFault, nemeses: Mapping[str, Nemesis]) -> Iterator[Selector]:
    """Yield the messages on which a fault acts, and those that the user has named for its release."""
    if fault.fault == "rule":
        rule = rule_of(fault.parameters).rule
        yield from (rule.select, *rule.release.after)
    elif (make_rule := nemeses[fault.fault].rule) is not None:
        yield make_rule(fault).select


def _client_of(options: Options, pipeline: PipelineSpec) -> Sender:
    client = ClientChoice.of(options.client)
    kafka = kafka_version(options.kafka)
    level = kafka.transaction_level(options.transaction_version)
    if client.pinned is not None:
        own_level = client.pinned.transaction_version
    else:
        own_level = max(kafka.transaction_versions) if client.name == "java" else 0
    return Sender(
        client.name,
        transaction_version=None if CLUSTERS[options.cluster].shared else level,
        client_transaction_version=own_level,
        group_protocol=options.group_protocol,
        transactional=pipeline.transactional,
        in_group=any(stage.group is not None for stage in pipeline.stages),
    )
