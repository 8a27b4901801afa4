"""A program of a user's: any command, started as it is described."""

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
"""By interpreter, how the file's name ends that it is given: a word without that may mean anything else."""


@dataclass(frozen=True)
class ExternalProgram:
    """A `Program` that says nothing: it is known by its process, its group and its log."""

    stage: CustomStage
    folder: Path  # of the description: paths are relative to it
    run_folder: Path
    told: Mapping[str, str] = field(default_factory=dict)  # placeholders that are the same for all instances

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return the command with its placeholders filled in, in its folder."""
        assert spec.worker is not None, "only workers run commands"
        values = self._values(spec.worker, spec.bootstrap)
        argv = [fill_placeholders(word, values) for word in self.stage.command]
        env = {name: fill_placeholders(text, values) for name, text in self.stage.env.items()}
        env = {"PYTHONPATH": _own_path(os.environ.get("PYTHONPATH", "")), **env}
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
            **self.told,
            "group": task.group or "",
            "transactional_id": task.transactional_id or "",
            "bootstrap": bootstrap,
            "instance": instance_of(task.worker),
            "run": self.run_folder.name,
            "data": str(data),
        }


def _own_path(path: str) -> str:
    """A PYTHONPATH without our own folder, which the command has put first: a user's modules may have our names."""
    house = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(
        part for part in path.split(os.pathsep) if part and Path(part).resolve() != Path(house)
    )


def worker_name(stage: str, instance: int) -> str:
    """As an instance is called in a run."""
    return f"{stage}-{instance}"


def instance_of(worker: str) -> str:
    """The number of an instance."""
    return worker.rpartition("-")[2]


def executable(word: str, cwd: Path) -> str:
    """The program that a command names: beside the file, or on the PATH."""
    if "/" in word:
        return str(cwd / word)
    found = shutil.which(word)
    return str(Path(found).absolute()) if found else word


def require_executable(stage: CustomStage, folder: Path) -> None:
    """Raise `UsageError` where the command of a stage, or its script, is not there, or cannot be run."""
    cwd = folder / (stage.cwd or ".")
    if not cwd.is_dir():
        raise UsageError(f"the working folder of stage {stage.name}, {cwd}, is not there")
    found = executable(stage.command[0], cwd)
    if shutil.which(found) is None:
        there = Path(found).is_file()
        what = (
            "cannot be run: make it executable (chmod +x)" if there else "is not there, and not on the PATH"
        )
        raise UsageError(f"the command of stage {stage.name}, {found}, {what}")
    script = script_of(stage.command)
    if script is not None and not (cwd / script).exists():
        raise UsageError(
            f"the command of stage {stage.name} gives {found} the file {script}, and {cwd / script} is not there"
        )


def script_of(command: Sequence[str]) -> str | None:
    """The file that an interpreter is to run; None: it has none, or one cannot tell."""
    program = Path(command[0])
    if "/" in command[0] and not program.is_absolute():
        return None  # a program of the user's own, whatever it is called
    words = list(command[1:3])
    interpreter = program.name.rstrip("0123456789.")
    if interpreter == "java":
        words = words[1:] if words[:1] == ["-jar"] else []
    if not words or words[0].startswith("-") or "{" in words[0]:
        return None
    return words[0] if words[0].endswith(SCRIPTS.get(interpreter, ())) else None
