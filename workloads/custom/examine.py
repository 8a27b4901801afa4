"""Check a pipeline.toml before a run starts: report errors, and suggest keys that make more checks possible."""

from collections.abc import Iterator
from pathlib import Path

from harness.common.errors import UsageError
from harness.common.wording import plural
from harness.environment.doctor import Requirement
from harness.model.vocabulary import Guarantee
from workloads.custom.command import executable, require_executable
from workloads.custom.description import CustomStage, PipelineDescription
from workloads.custom.names import require_names_passed
from workloads.custom.read import read
from workloads.custom.trial import INPUTS_PER_TOPIC, require_working


def examine(file: Path) -> Iterator[Requirement]:
    """Yield a result for each thing in the file that a run needs."""
    try:
        description = read(file)
    except UsageError as error:
        yield Requirement("file", False, "cannot be used", str(error))
        return
    yield Requirement(
        "file",
        True,
        f"{description.name}, {description.guarantee.value}: {plural(len(description.stages), 'stage')}",
    )
    for stage in description.stages:
        yield _command(description, stage)
        yield from _suggestions(description, stage)
    yield from _compacted(description)
    try:
        require_names_passed(description)
    except UsageError as error:
        yield Requirement("other clusters", True, "cannot run with --cluster external", str(error))
    yield _functions(description)
    if description.expect is None:
        suggestion = "add [expect]: without it, lost and repeated inputs are not checked"
        yield Requirement("expect", True, "the expected outputs of inputs are not described", suggestion)


def _command(description: PipelineDescription, stage: CustomStage) -> Requirement:
    name = f"stage {stage.name}"
    try:
        require_executable(stage, description.folder)
    except UsageError as error:
        return Requirement(name, False, "cannot be started", str(error))
    path = executable(stage.command[0], description.folder / (stage.cwd or "."))
    return Requirement(name, True, f"{path}, {stage.instances} instances")


def _suggestions(description: PipelineDescription, stage: CustomStage) -> Iterator[Requirement]:
    """Yield suggestions that would make more checks possible."""
    name = f"stage {stage.name}"
    if stage.group is None:
        suggestion = (
            "set `group` if the program has one: without it, Fencepost sees its progress only in its outputs; if it "
            "keeps its positions in a topic, a file or a database, let [stage.progress] print them"
        )
        if stage.progress is None:
            yield Requirement(name, True, "no group", suggestion)
    if (
        stage.transactional_id is not None
        and stage.instances > 1
        and "{instance}" not in stage.transactional_id
    ):
        suggestion = (
            "use {instance} to give each instance its own id: instances with the same id fence each other"
        )
        yield Requirement(name, True, "one transactional id for all instances", suggestion)
    promised = description.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions
    if promised and stage.transactional_id is None:
        suggestion = "set `transactional_id` if you know it: on a shared cluster Fencepost cannot observe it"
        yield Requirement(name, True, "no transactional id", suggestion)


def _compacted(description: PipelineDescription) -> Iterator[Requirement]:
    """Yield each output topic that is compacted although every record of it is checked."""
    expect = description.expect
    written = {topic for stage in description.stages for topic in stage.writes}
    for topic, settings in description.topics.items():
        policy = settings.config.get("cleanup.policy", "")
        if expect and topic in written and topic not in expect.final and "compact" in policy:
            suggestion = (
                "name it in `final`, or leave out cleanup.policy: every record of it is checked, so the run is unknown "
                "if the log cleaner removes one"
            )
            yield Requirement(f"topic {topic}", True, "it is compacted", suggestion)


def _functions(description: PipelineDescription) -> Requirement:
    try:
        require_working(description)
    except UsageError as error:
        return Requirement("functions", False, "do not work", str(error))
    names = ", ".join(map(str, description.functions)) or "none"
    return Requirement("functions", True, f"{names}: called for {INPUTS_PER_TOPIC} inputs of each topic")
