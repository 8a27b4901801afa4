"""The command of a custom pipeline's stage, with its placeholders filled in."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.common.errors import UsageError
from harness.processes.program import CommandLine
from harness.processes.specs import ProcessSpec, WorkerSpec
from workloads.custom.description import CustomStage
from workloads.custom.placeholders import fill_placeholders

SCRIPTS = {
    "python": (".py",),
    "node": (".js", ".mjs", ".cjs"),
    "ruby": (".rb",),
    "perl": (".pl",),
    "java": (".jar",),
}
"""By interpreter: the suffixes of its script files. A word without such a suffix may be no script."""


@dataclass(frozen=True)
class ExternalProgram:
    """A `Program` that reports nothing to Fencepost.

    Fencepost observes its process, its consumer group and its output instead.
    """

    stage: CustomStage
    folder: Path  # the folder of pipeline.toml; paths are relative to it
    run_folder: Path
    placeholders: Mapping[str, str] = field(
        default_factory=dict
    )  # values that are the same for all instances

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return the command with its placeholders filled in, to run in the folder of pipeline.toml."""
        assert spec.worker is not None, "only workers run commands"
        values = self._values(spec.worker, spec.bootstrap)
        argv = [fill_placeholders(word, values) for word in self.stage.command]
        env = {name: fill_placeholders(text, values) for name, text in self.stage.env.items()}
        env = {"PYTHONPATH": _path_without_fencepost(os.environ.get("PYTHONPATH", "")), **env}
        return CommandLine(
            [executable(argv[0], self._cwd), *argv[1:]], env=env, cwd=self._cwd, rules=self.stage.rules
        )

    @property
    def _cwd(self) -> Path:
        return self.folder / (self.stage.cwd or ".")

    def _values(self, task: WorkerSpec, bootstrap: str) -> Mapping[str, str]:
        data = self.run_folder / "data" / task.worker
        data.mkdir(parents=True, exist_ok=True)
        return {
            **self.placeholders,
            "group": task.group or "",
            "transactional_id": task.transactional_id or "",
            "bootstrap": bootstrap,
            "instance": instance_of(task.worker),
            "run": self.run_folder.name,
            "data": str(data),
        }


def _path_without_fencepost(path: str) -> str:
    """Return a PYTHONPATH without Fencepost's folder, because a user's modules may have the names of Fencepost's."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(
        part for part in path.split(os.pathsep) if part and Path(part).resolve() != Path(root)
    )


def worker_name(stage: str, instance: int) -> str:
    """Return the name of an instance in a run."""
    return f"{stage}-{instance}"


def instance_of(worker: str) -> str:
    """Return the number of an instance, from its name."""
    return worker.rpartition("-")[2]


def executable(word: str, cwd: Path) -> str:
    """Return the path of a command: relative to `cwd` if it has a slash, else from the PATH."""
    if "/" in word:
        return str(cwd / word)
    path = shutil.which(word)
    return str(Path(path).absolute()) if path else word


def require_executable(stage: CustomStage, folder: Path) -> None:
    """Raise `UsageError` if the command of a stage, or its script, does not exist or cannot be run."""
    cwd = folder / (stage.cwd or ".")
    if not cwd.is_dir():
        raise UsageError(f"the working folder of stage {stage.name}, {cwd}, does not exist")
    path = executable(stage.command[0], cwd)
    if shutil.which(path) is None:
        exists = Path(path).is_file()
        problem = (
            "cannot be run: make it executable (chmod +x)"
            if exists
            else "does not exist and is not on the PATH"
        )
        raise UsageError(f"the command of stage {stage.name}, {path}, {problem}")
    script = script_of(stage.command)
    if script is not None and not (cwd / script).exists():
        raise UsageError(
            f"the command of stage {stage.name} runs {path} with the file {script}, but {cwd / script} does not exist"
        )


def script_of(command: Sequence[str]) -> str | None:
    """Return the script that the command's interpreter runs. None: it runs no script, or the script is not known."""
    program = Path(command[0])
    if "/" in command[0] and not program.is_absolute():
        return None  # a program of the user, even if it has the name of an interpreter
    words = list(command[1:3])
    interpreter = program.name.rstrip("0123456789.")
    if interpreter == "java":
        words = words[1:] if words[:1] == ["-jar"] else []
    if not words or words[0].startswith("-") or "{" in words[0]:
        return None
    return words[0] if words[0].endswith(SCRIPTS.get(interpreter, ())) else None
