"""Check a pipeline.toml before anything starts: what is wrong, and what would make more checks possible."""

from collections.abc import Iterator
from pathlib import Path

from harness.common.errors import UsageError
from harness.environment.doctor import Requirement
from harness.model.vocabulary import Guarantee
from harness.results.wording import plural
from workloads.custom.command import executable, require_executable
from workloads.custom.description import CustomStage, PipelineDescription
from workloads.custom.read import read
from workloads.custom.tagged import require_names_passed
from workloads.custom.trial import TRIED, require_working


def examine(file: Path) -> Iterator[Requirement]:
    """Yield the result for each part that a run needs."""
    try:
        described = read(file)
    except UsageError as error:
        yield Requirement("file", False, "cannot be used", str(error))
        return
    yield Requirement(
        "file",
        True,
        f"{described.name}, {described.guarantee.value}: {plural(len(described.stages), 'stage')}",
    )
    for stage in described.stages:
        yield _command(described, stage)
        yield from _suggestions(described, stage)
    try:
        require_names_passed(described)
    except UsageError as error:
        yield Requirement("other clusters", True, "not for --cluster external", str(error))
    yield _functions(described)
    if described.expect is None:
        words = "add [expect]: without it, lost and repeated inputs are not checked"
        yield Requirement("expect", True, "no outputs are expected of inputs", words)


def _command(described: PipelineDescription, stage: CustomStage) -> Requirement:
    name = f"stage {stage.name}"
    try:
        require_executable(stage, described.folder)
    except UsageError as error:
        return Requirement(name, False, "cannot be started", str(error))
    path = executable(stage.command[0], described.folder / (stage.cwd or "."))
    return Requirement(name, True, f"{path}, {stage.instances} instances")


def _suggestions(described: PipelineDescription, stage: CustomStage) -> Iterator[Requirement]:
    """Yield suggestions that would make more checks possible."""
    name = f"stage {stage.name}"
    if stage.group is None:
        words = "set `group` if it has one: without it, progress is known from its outputs only"
        yield Requirement(name, True, "no group", words)
    if (
        stage.transactional_id is not None
        and stage.instances > 1
        and "{instance}" not in stage.transactional_id
    ):
        words = "use {instance} to give each instance its own id: instances with the same id fence each other"
        yield Requirement(name, True, "one transactional id for all instances", words)
    promised = described.guarantee is Guarantee.EXACTLY_ONCE and stage.transactions
    if promised and stage.transactional_id is None:
        words = "set `transactional_id` if you know it: on a shared cluster it cannot be found out"
        yield Requirement(name, True, "no transactional id", words)


def _functions(described: PipelineDescription) -> Requirement:
    try:
        require_working(described)
    except UsageError as error:
        return Requirement("functions", False, "do not work", str(error))
    names = ", ".join(map(str, described.functions)) or "none"
    return Requirement("functions", True, f"{names}: tried on {TRIED} inputs of each topic")
