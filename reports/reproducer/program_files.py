"""The pipeline file of a user's program, and the sources beside it, without what must not become public."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from harness.common.wording import REDACTED, is_secret, join_words, redact_setting
from reports.known_secrets import is_placeholder, read_pipeline
from reports.reproducer.cleaning import Cleaning

_SOURCE = re.compile(r"\.(?:c|cc|cpp|cs|go|h|hpp|java|[cm]?js|kt|[cm]?ts|py|rb|rs|scala|sh|swift)")
MANIFESTS = frozenset({"package.json", "go.mod", "go.sum", "Cargo.toml", "requirements.txt"})
"""Files that name the libraries of a program. Others, such as lock files of npm and `pom.xml`, name registries."""
PACKAGE_KEYS = ("name", "version", "private", "type", "main", "engines", "dependencies")
"""The keys of `package.json` that stay. The others name people and repositories."""
OTHER_FOLDERS = frozenset(
    {"node_modules", "vendor", "venv", "env", "build", "dist", "target", "__pycache__", "store"}
)
MOST_FILES = 60
MOST_BYTES = 256 * 1024
RESERVED = frozenset({"README.md", "run.toml", "verdict.json", "diagram.svg"})
_FUNCTION = re.compile(r"(?P<file>[^:]+\.py):(?P<function>\w+)")


@dataclass
class ProgramFiles:
    """The files of a user's pipeline, by their path in the reproducer, and notes for its reader."""

    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)  # files with contents of records
    binaries: list[str] = field(default_factory=list)  # the programs of stages that must be built
    plan_name: str = "pipeline.toml"  # the name of the pipeline file in the reproducer


def program_files(pipeline: Path, cleaning: Cleaning) -> ProgramFiles:
    """Return the pipeline file and the sources in its folder. Binaries and the folders of libraries are left out."""
    program = ProgramFiles(plan_name="pipeline.toml" if pipeline.name in RESERVED else pipeline.name)
    document = read_pipeline(pipeline)
    if not document:
        program.notes.append(
            f"`{pipeline.name}` could not be read when this folder was made. Put it and its program into this folder."
        )
        return program
    inputs = {
        Path(str(table["file"])).as_posix()
        for table in document.get("inputs", {}).values()
        if isinstance(table, Mapping) and "file" in table
    }
    program.inputs = [
        path for name in inputs if (path := pipeline.parent / Path(name).expanduser()).is_file()
    ]
    program.files[program.plan_name] = ""
    for path in _sources(pipeline.parent):
        name = path.relative_to(pipeline.parent).as_posix()
        if path not in program.inputs and name not in RESERVED:
            _add(program, name, path, cleaning)
    _add_functions(document, pipeline.parent, cleaning, program)
    _note_other_files(document, pipeline.parent, program)
    program.files[program.plan_name] = tomli_w.dumps(_cleaned_document(document, cleaning, program))
    for name in sorted(inputs):
        if cleaning.with_values and _is_inside(pipeline.parent, name):
            _add(program, name, pipeline.parent / name, cleaning)
        else:
            why = "" if _is_inside(pipeline.parent, name) else ", and lies in another folder"
            program.notes.append(
                f"The inputs in `{Path(name).name}` are left out: they are contents of records{why}."
            )
    return program


def _add(program: ProgramFiles, name: str, path: Path, cleaning: Cleaning) -> None:
    """Add a file as text. A file that is too large, or is no text, gets a note."""
    try:
        if path.stat().st_size > MOST_BYTES:
            program.notes.append(f"`{name}` is left out: it is larger than {MOST_BYTES // 1024} KB.")
            return
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        program.notes.append(f"`{name}` is left out: it cannot be read as text.")
        return
    if len(program.files) >= MOST_FILES:
        program.notes.append(f"`{name}` is left out: the folder has {MOST_FILES} files already.")
        return
    try:
        changed = cleaning.code(_package(text) if path.name == "package.json" else text)
    except (ValueError, AttributeError):
        program.notes.append(f"`{name}` is left out: it is no JSON.")
        return
    lines = [
        str(number)
        for number, (before, after) in enumerate(
            zip(text.splitlines(), changed.splitlines(), strict=False), 1
        )
        if before != after and path.name != "package.json"
    ]
    program.files[name] = changed
    if lines:
        plural = "s" if len(lines) > 1 else ""
        program.notes.append(
            f"`{name}` was changed in line{plural} {join_words(lines, 10)}. Check that it still runs."
        )


def _package(text: str) -> str:
    """Return `package.json` with the keys that name the libraries."""
    body = json.loads(text)
    return json.dumps({key: body[key] for key in PACKAGE_KEYS if key in body}, indent=2) + "\n"


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the sources in a folder and in its folders, except in hidden ones and in those of libraries."""
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder).parts
        hidden = (
            any(part.startswith(".") or part in OTHER_FOLDERS for part in within[:-1]) or within[-1][0] == "."
        )
        is_source = _SOURCE.fullmatch(path.suffix) is not None or path.name in MANIFESTS
        if is_source and not hidden and path.is_file() and not path.is_symlink() and not _is_binary(path):
            yield path


def _is_inside(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve())


def _is_binary(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"\0" in file.read(8192)
    except OSError:
        return True


def _add_functions(document: dict[str, Any], folder: Path, cleaning: Cleaning, program: ProgramFiles) -> None:
    """Add the files of functions that lie in other folders, and change the document so that it names their copies."""
    for table in (document.get("expect", {}), *document.get("inputs", {}).values()):
        for key, text in table.items() if isinstance(table, dict) else ():
            match = _FUNCTION.fullmatch(text) if isinstance(text, str) else None
            if match is None or match["file"] in program.files:
                continue
            path = folder / Path(match["file"]).expanduser()
            if path.name not in program.files and path.is_file():
                _add(program, path.name, path, cleaning)
            table[key] = f"{path.name}:{match['function']}"


def _note_other_files(document: Mapping[str, Any], folder: Path, program: ProgramFiles) -> None:
    """Note the files in commands that are no sources, such as binaries and configurations."""
    for stage in document.get("stage", ()):
        for number, word in _words(stage):
            path = folder / str(stage.get("cwd", "")) / str(word)
            if not path.is_file() or not _is_inside(folder, str(path)):
                continue
            within = path.resolve().relative_to(folder.resolve()).as_posix()
            if within not in program.files:
                note = f"`{path.name}` is left out: it is not the source of a program. Build it, or write it."
                program.notes += [] if note in program.notes else [note]
            if within not in program.files and number == 0 and within not in program.binaries:
                program.binaries.append(within)


def _words(stage: Any) -> Iterator[tuple[int, Any]]:
    """Yield the words of the commands of a stage, each with its place in its command."""
    progress = stage.get("progress", {}) if isinstance(stage, Mapping) else {}
    for table in (stage, progress):
        yield from enumerate(table.get("command", ()) if isinstance(table, Mapping) else ())


def _cleaned_document(
    document: Mapping[str, Any], cleaning: Cleaning, program: ProgramFiles
) -> dict[str, Any]:
    """Return the pipeline file without values of environment variables and without secrets in commands."""
    cleaned: dict[str, Any] = _known(document, cleaning)
    for stage in cleaned.get("stage", ()):
        if not isinstance(stage, dict):
            continue
        stage["command"] = list(_cleaned_command(stage.get("command", ()), cleaning))
        progress = stage.get("progress")
        if isinstance(progress, dict) and "command" in progress:
            progress["command"] = list(_cleaned_command(progress["command"], cleaning))
        if isinstance(progress, dict) and "database" in progress:
            progress["database"] = cleaning.text(str(progress["database"]))
        if "cwd" in stage:
            stage["cwd"] = cleaning.text(str(stage["cwd"]))
        env = stage.get("env", {})
        left_out = [name for name, value in env.items() if not is_placeholder(str(value))]
        if left_out:
            stage["env"] = {**env, **dict.fromkeys(left_out, REDACTED)}
            names = join_words([f"`{name}`" for name in left_out], 20)
            program.notes.append(f"Stage `{stage.get('name')}` needs values for {names} in `[stage.env]`.")
        if any(REDACTED in word for word in stage["command"]):
            program.notes.append(
                f"The command of stage `{stage.get('name')}` needs a value for each `{REDACTED}`."
            )
        if isinstance(progress, dict) and REDACTED in str(progress):
            program.notes.append(
                f"The `[stage.progress]` of stage `{stage.get('name')}` needs a value for each `{REDACTED}`."
            )
    for topic in cleaned.get("topics", {}).values():
        if isinstance(topic, dict) and isinstance(topic.get("config"), dict):
            topic["config"] = {name: cleaning.setting(name, value) for name, value in topic["config"].items()}
    return cleaned


def _known(value: Any, cleaning: Cleaning, key: str = "") -> Any:
    """Return a value of the pipeline file, in which only known names and literals are replaced, as in a source."""
    if isinstance(value, Mapping):
        return {name: _known(inner, cleaning, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_known(inner, cleaning, key) for inner in value]
    is_pointer = key in ("correlate", "ignore")  # a JSON pointer such as json:/var/name is no path of a file
    return cleaning.code(value) if isinstance(value, str) and not is_pointer else value


def _cleaned_command(words: Sequence[Any], cleaning: Cleaning) -> Iterator[str]:
    """Yield the words of a command. The value of a flag that names a secret is replaced."""
    flag = ""
    for number, each in enumerate(words):
        word = str(each)
        name, equals, value = word.partition("=")
        if flag and not word.startswith("-"):
            yield REDACTED
        elif number == 0 and word.startswith("/"):
            yield Path(word).name  # the reader has the program in another folder
        elif equals and name.startswith("-"):
            yield f"{name}={cleaning.text(redact_setting(name.lstrip('-'), value))}"
        else:
            yield cleaning.text(word)
        flag = word if word.startswith("-") and not equals and is_secret(word.lstrip("-")) else ""
