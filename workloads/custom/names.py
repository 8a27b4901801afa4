"""The names of a custom pipeline: in the file, in a run, and as placeholders such as `{bootstrap}`.

On a shared cluster, topics, groups and ids begin with the run's tag, and the commands pass these names to the programs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.common.errors import UsageError
from harness.model.vocabulary import Guarantee
from workloads.custom.description import CustomStage, PipelineDescription

NAMES = (
    *("bootstrap", "instance", "run", "data", "client_config", "kafka_jars"),
    *("prefix", "group", "transactional_id"),
)
"""The placeholders. They stand for: the bootstrap servers; the number of the instance, from 1; the name of the run
folder; a data folder for the instance; the file of client properties; the class path of the run's version of Kafka;
the prefix of all names of the run; the consumer group and the transactional id of the stage.
"""
TOPIC_PLACEHOLDER = "topic:"
"""The prefix of the placeholder for a topic's name."""
PLACEHOLDER = re.compile(r"\{([a-z_]+|topic:[A-Za-z0-9._-]+)\}")
PREFIX = "{prefix}"


def tagged(description: PipelineDescription, tag: str) -> PipelineDescription:
    """Return the pipeline with the tag before topics, groups and transactional ids.

    The user's functions still get the names in the file.
    """
    if not tag:
        return description

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
        description,
        tag=tag,
        stages=tuple(map(tag_stage, description.stages)),
        inputs={add_tag(topic): inputs for topic, inputs in description.inputs.items()},
        topics={add_tag(topic): settings for topic, settings in description.topics.items()},
    )


def name_in_file(description: PipelineDescription, topic: str) -> str:
    """Return the name of a run's topic in pipeline.toml."""
    return topic.removeprefix(f"{description.tag}-") if description.tag else topic


def name_in_run(description: PipelineDescription, topic: str) -> str:
    """Return the name of a topic of pipeline.toml in the run."""
    return f"{description.tag}-{topic}" if description.tag else topic


def placeholder_values(description: PipelineDescription) -> Mapping[str, str]:
    """Return the values of `{topic:NAME}` and `{prefix}`."""
    topics = {topic for stage in description.stages for topic in (*stage.reads, *stage.writes)}
    values = {f"topic:{name_in_file(description, topic)}": topic for topic in topics}
    return {**values, "prefix": f"{description.tag}-" if description.tag else ""}


def require_names_passed(description: PipelineDescription) -> None:
    """Raise `UsageError` if a command has fixed names of topics, groups or ids instead of placeholders."""
    for stage in description.stages:
        promised = description.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions
        for placeholder, name in _required_placeholders(stage, promised):
            words = (*stage.command, *stage.env.values())
            if not any(placeholder in word or PREFIX in word for word in words):
                raise UsageError(
                    f"{description.file}: [[stage]] {stage.name} has fixed names, but on a shared cluster the names "
                    f"differ in each run: write {placeholder} in its command or env in place of {name}, "
                    f"or {PREFIX} before the name"
                )


def _required_placeholders(stage: CustomStage, transactional: bool) -> list[tuple[str, str]]:
    """Return (placeholder, name in the file) for each name that the command must use."""
    required = [(f"{{topic:{topic}}}", topic) for topic in (*stage.reads, *stage.writes)]
    if stage.group is not None:
        required.append(("{group}", stage.group))
    if stage.transactional_id is not None:
        required.append(("{transactional_id}", stage.transactional_id))
    elif transactional:
        prefix = "{group}" if stage.group is not None else PREFIX
        required.append((prefix, "its transactional id"))  # the file does not name it
    return required


def topics_in(texts: Iterable[str]) -> set[str]:
    """Return the topics that the texts name in placeholders."""
    names = {name for text in texts for name in PLACEHOLDER.findall(text)}
    return {name.removeprefix(TOPIC_PLACEHOLDER) for name in names if name.startswith(TOPIC_PLACEHOLDER)}


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in a text. Other braces stay."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
