"""A custom pipeline on a shared cluster: its topics, groups and ids begin with the run's tag, and its programs get
these names.
"""

from collections.abc import Mapping
from dataclasses import replace

from harness.common.errors import UsageError
from harness.model.vocabulary import Guarantee
from workloads.custom.description import CustomStage, PipelineDescription

PREFIX = "{prefix}"


def tagged(described: PipelineDescription, tag: str) -> PipelineDescription:
    """Return the pipeline with the tag before topics, groups and transactional ids. Its functions still get the
    names in the file.
    """
    if not tag:
        return described

    def add_tag(name: str) -> str:
        return f"{tag}-{name}"

    def tag_stage(stage: CustomStage) -> CustomStage:
        return replace(
            stage,
            reads=tuple(map(add_tag, stage.reads)),
            writes=tuple(map(add_tag, stage.writes)),
            group=add_tag(stage.group) if stage.group else None,
            transactional_id=add_tag(stage.transactional_id) if stage.transactional_id else None,
        )

    return replace(
        described,
        tag=tag,
        stages=tuple(map(tag_stage, described.stages)),
        inputs={add_tag(topic): inputs for topic, inputs in described.inputs.items()},
        topics={add_tag(topic): topic_as_made for topic, topic_as_made in described.topics.items()},
    )


def name_in_file(described: PipelineDescription, topic: str) -> str:
    """Return the name of a run's topic in pipeline.toml."""
    return topic.removeprefix(f"{described.tag}-") if described.tag else topic


def name_in_run(described: PipelineDescription, topic: str) -> str:
    """Return the name of a topic of pipeline.toml in the run."""
    return f"{described.tag}-{topic}" if described.tag else topic


def placeholder_values(described: PipelineDescription) -> Mapping[str, str]:
    """Return the values of `{topic:NAME}` and `{prefix}`."""
    topics = {topic for stage in described.stages for topic in (*stage.reads, *stage.writes)}
    values = {f"topic:{name_in_file(described, topic)}": topic for topic in topics}
    return {**values, "prefix": f"{described.tag}-" if described.tag else ""}


def require_names_passed(described: PipelineDescription) -> None:
    """Raise `UsageError` if a command does not use the names that its topics, group and transactional id have in a
    run.
    """
    for stage in described.stages:
        promised = described.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions
        for placeholder, name in _required_placeholders(stage, promised):
            words = (*stage.command, *stage.env.values())
            if not any(placeholder in word or PREFIX in word for word in words):
                raise UsageError(
                    f"{described.file}: [[stage]] {stage.name} must use the names that its run has on a shared "
                    f"cluster: write {placeholder} in its command or env where it has "
                    f"{name}, or {PREFIX} before the name"
                )


def _required_placeholders(stage: CustomStage, transactional: bool) -> list[tuple[str, str]]:
    """Return (placeholder, name in the file) for each name that the command must use."""
    required = [(f"{{topic:{topic}}}", topic) for topic in (*stage.reads, *stage.writes)]
    if stage.group is not None:
        required.append(("{group}", stage.group))
    if stage.transactional_id is not None:
        required.append(("{transactional_id}", stage.transactional_id))
    elif transactional:
        made_of = "{group}" if stage.group is not None else PREFIX
        required.append((made_of, "its transactional id"))  # the file does not name it
    return required
