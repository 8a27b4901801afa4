"""A pipeline on a cluster that others use: its topics, groups and ids bear the run's tag, and its programs know it."""

from collections.abc import Mapping
from dataclasses import replace

from harness.common.errors import UsageError
from harness.model.vocabulary import Guarantee
from workloads.custom.description import CustomStage, PipelineDescription

PREFIX = "{prefix}"


def tagged(described: PipelineDescription, tag: str) -> PipelineDescription:
    """The same on topics, groups and transactional ids of its own; its functions go on with the names in the file."""
    if not tag:
        return described

    def own(name: str) -> str:
        return f"{tag}-{name}"

    def own_stage(stage: CustomStage) -> CustomStage:
        return replace(
            stage,
            reads=tuple(map(own, stage.reads)),
            writes=tuple(map(own, stage.writes)),
            group=own(stage.group) if stage.group else None,
            transactional_id=own(stage.transactional_id) if stage.transactional_id else None,
        )

    return replace(
        described,
        tag=tag,
        stages=tuple(map(own_stage, described.stages)),
        inputs={own(topic): inputs for topic, inputs in described.inputs.items()},
        topics={own(topic): topic_as_made for topic, topic_as_made in described.topics.items()},
    )


def name_in_file(described: PipelineDescription, topic: str) -> str:
    """The name that the file has for a topic of the run."""
    return topic.removeprefix(f"{described.tag}-") if described.tag else topic


def name_in_run(described: PipelineDescription, topic: str) -> str:
    """The name that a topic of the file has in the run."""
    return f"{described.tag}-{topic}" if described.tag else topic


def placeholder_values(described: PipelineDescription) -> Mapping[str, str]:
    """What each `{topic:NAME}` stands for, and `{prefix}`."""
    topics = {topic for stage in described.stages for topic in (*stage.reads, *stage.writes)}
    told = {f"topic:{name_in_file(described, topic)}": topic for topic in topics}
    return {**told, "prefix": f"{described.tag}-" if described.tag else ""}


def require_names_passed(described: PipelineDescription) -> None:
    """Raise `UsageError` where a program is not told the names that its topics, its group and its id have in a run."""
    for stage in described.stages:
        promised = described.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions
        for place, name in _asked(stage, promised):
            words = (*stage.command, *stage.env.values())
            if not any(place in word or PREFIX in word for word in words):
                raise UsageError(
                    f"{described.file}: [[stage]] {stage.name} must be told the names that its run has on a cluster "
                    f"that others use: write {place} in its command or env where it has "
                    f"{name}, or {PREFIX} before the name"
                )


def _asked(stage: CustomStage, transactional: bool) -> list[tuple[str, str]]:
    """What it must be told: the placeholder, and the name in the file."""
    asked = [(f"{{topic:{topic}}}", topic) for topic in (*stage.reads, *stage.writes)]
    if stage.group is not None:
        asked.append(("{group}", stage.group))
    if stage.transactional_id is not None:
        asked.append(("{transactional_id}", stage.transactional_id))
    elif transactional:
        made_of = "{group}" if stage.group is not None else PREFIX
        asked.append((made_of, "its transactional id"))  # which no description names
    return asked
