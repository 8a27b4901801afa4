"""The command of a custom pipeline's stage, with its placeholders filled in."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from harness.common.errors import UsageError
from harness.common.wording import printable, redact_text
from harness.databases.query import DATABASE, QUERY, SQL, is_server
from harness.processes.specs import CommandLine, ProcessSpec, ProgressCommand
from workloads.custom.description import CustomStage
from workloads.custom.names import fill_placeholders

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
        task = spec.worker
        ids = {"group": task.group or "", "transactional_id": task.transactional_id or ""}
        values = self._values(task.worker, spec.bootstrap) | ids
        return self._command_line(self.stage.command, values)

    def progress_command(self) -> ProgressCommand:
        """Return the command in the stage's `[stage.progress]`. A query becomes a command that prints its rows."""
        progress = self.stage.progress
        assert progress is not None, "only stages with [stage.progress] have such a command"

        def command_line(bootstrap: str) -> CommandLine:
            values = self._values(worker_name(self.stage.name, 1), bootstrap)
            if progress.sql is None:
                return replace(self._command_line(progress.command, values), rules=None)
            database = fill_placeholders(progress.database or "", values)
            if not is_server(database):
                database = str(self.folder / Path(database).expanduser())
            sql = fill_placeholders(progress.sql, values)
            argv = [sys.executable, "-P", "-m", QUERY, f"{progress.within_s:g}"]
            return CommandLine(argv, env={DATABASE: database, SQL: sql})

        words = " ".join(progress.command) if progress.sql is None else progress.sql
        return ProgressCommand(f"`{printable(redact_text(words), 200)}`", command_line, progress.within_s)

    def _command_line(self, command: Sequence[str], values: Mapping[str, str]) -> CommandLine:
        argv = [fill_placeholders(word, values) for word in command]
        env = {name: fill_placeholders(text, values) for name, text in self.stage.env.items()}
        env = {"PYTHONPATH": _path_without_fencepost(os.environ.get("PYTHONPATH", "")), **env}
        return CommandLine(
            [executable(argv[0], self._cwd), *argv[1:]], env=env, cwd=self._cwd, rules=self.stage.rules
        )

    @property
    def _cwd(self) -> Path:
        return self.folder / (self.stage.cwd or ".")

    def _values(self, worker: str, bootstrap: str) -> dict[str, str]:
        data = self.run_folder / "data" / worker
        data.mkdir(parents=True, exist_ok=True)
        return {
            **self.placeholders,
            "bootstrap": bootstrap,
            "instance": instance_of(worker),
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
        raise UsageError(
            f"the working folder of stage {stage.name}, {cwd}, does not exist: create it, or change cwd"
        )
    _require_executable(f"the command of stage {stage.name}", stage.command, cwd)
    if stage.progress and stage.progress.command:
        _require_executable(
            f"the [stage.progress] command of stage {stage.name}", stage.progress.command, cwd
        )
    if stage.progress and is_server(stage.progress.database or "") and find_spec("psycopg") is None:
        raise UsageError(
            f"the [stage.progress] of stage {stage.name} asks a PostgreSQL database, which needs the package psycopg: "
            "run `pip install 'fencepost[postgres]'`"
        )


def _require_executable(what: str, command: Sequence[str], cwd: Path) -> None:
    path = executable(command[0], cwd)
    if shutil.which(path) is None:
        exists = Path(path).is_file()
        problem = (
            "cannot be run: make it executable (chmod +x)"
            if exists
            else "does not exist and is not on the PATH: build or install it, or correct `command`"
        )
        raise UsageError(f"{what}, {path}, {problem}")
    script = script_of(command)
    if script is not None and not (cwd / script).exists():
        raise UsageError(
            f"{what} runs {path} with the file {script}, but {cwd / script} does not exist: correct the path"
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
