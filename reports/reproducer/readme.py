"""The README of a reproducer: what was seen, how to run it, and the steps of the smallest finding."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.common.wording import join_words, printable
from harness.results.verdict import FaultReport, Validity

MOST_STEPS = 120
"""The most steps of a trace that are shown."""
_OPTIONS_SHOWN = (
    "client",
    "cluster",
    "brokers",
    "workers",
    "rate",
    "txn-size",
    "time-limit",
    "seed",
    "defect",
)
"""The options that are shown even if they have their defaults."""
REPOSITORY = "https://github.com/fencepost/fencepost"
_OF_WORKLOADS = frozenset({"client", "workers", "txn-size"})
DIRTY = "-dirty"
_BUILD = {
    "package.json": ("npm install", "Node.js with npm"),
    "go.mod": ("go build", "Go"),
    "Cargo.toml": ("cargo build", "Rust with cargo"),
    "requirements.txt": (".venv/bin/pip install -r requirements.txt", ""),
}
"""By file: the command that gets the libraries of a program, and what the reader needs for it besides Python."""


@dataclass(frozen=True)
class ReadmeParts:
    """What the README shows. All texts are cleaned."""

    valid: Validity
    pipeline: str  # `the workload shop`, or `the pipeline billing`
    summary: str
    anomaly: str | None  # None: no anomaly decides the verdict, which is unknown
    meaning: str
    count: str  # in words
    sentence: str
    faults: Sequence[FaultReport]
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    settings_needed: Sequence[str]  # for `fencepost replay --set`, such as `broker.ssl.key.password`
    notes: Sequence[str]
    files: Sequence[str]
    binaries: Sequence[str]  # the programs of stages that must be built
    subject: str  # of the trace
    steps: Sequence[str]
    broker_log: Sequence[str]
    program_log: Sequence[str] | None  # None: contents of records cannot be recognised in it
    has_diagram: bool
    cause: Sequence[str]  # of the finding, in sentences
    with_values: bool
    commit: str  # of Fencepost in the run; empty: not known
    began: str = ""  # when the run began, in UTC; empty: not known
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the options


def readme(parts: ReadmeParts) -> str:
    """Return `README.md`."""
    return "\n".join(
        [
            *_seen(parts),
            *_run_it(parts),
            *_versions(parts),
            *_faults(parts),
            *_steps(parts),
            *_logs(parts),
            *_contents(parts),
        ]
    )


def _seen(parts: ReadmeParts) -> Iterator[str]:
    kafka, client = parts.versions.get("kafka", "an unknown version"), _client(parts)
    word = "invalid" if parts.valid is Validity.INVALID else "unknown"
    finding = (
        f"The smallest finding: {parts.sentence}."
        if parts.sentence
        else "No anomaly was found, so nothing is proven."
    )
    yield f"# {parts.anomaly or 'A run without a verdict'}: {parts.pipeline} on Kafka {kafka}"
    yield ""
    yield f"[Fencepost]({REPOSITORY}) ran {parts.pipeline} on Kafka {kafka} with {client}."
    yield f"The verdict is {word}: {parts.summary.rstrip('.')}."
    yield finding
    if parts.options.get("defect"):
        yield ""
        yield (
            f"**The pipeline has the defect `{parts.options['defect']}`, which was planted on purpose. "
            "This is not a bug of Kafka or of a client.**"
        )
    yield ""
    yield "## Expected anomaly"
    yield ""
    if parts.anomaly is None:
        yield "None. The verdict is expected to be unknown again."
    else:
        yield f"`{parts.anomaly}`. {parts.meaning}"
        yield f"The run had this: {parts.count}."
    yield ""
    if parts.cause:
        yield " ".join(parts.cause)
        yield ""
    if parts.has_diagram:
        yield f"![The smallest finding of {parts.anomaly}](diagram.svg)"
        yield ""


def _run_it(parts: ReadmeParts) -> Iterator[str]:
    yield "## Run it"
    yield ""
    needs = [
        "Linux",
        "Python 3.11 to 3.14",
        *(tool for file, (_, tool) in _BUILD.items() if tool and file in parts.files),
    ]
    yield f"You need {join_words(needs, 8)}. Fencepost fetches Kafka, and Java if it is missing."
    yield "Run this in the folder of this file:"
    yield ""
    yield "```sh"
    yield "python3 -m venv .venv"
    yield f".venv/bin/pip install {' '.join(map(shlex.quote, _packages(parts)))}"
    for file, (command, _) in _BUILD.items():
        if file == "go.mod" and file in parts.files and parts.binaries:
            yield from (f"go build -o {shlex.quote(binary)} ." for binary in parts.binaries)
        elif file in parts.files:
            yield command
    sets = "".join(f" --set {name}=VALUE" for name in parts.settings_needed)
    yield f".venv/bin/fencepost replay .{sets}"
    yield "```"
    yield ""
    expected = (
        f"The exit status is 1, and the last lines name `{parts.anomaly}`."
        if parts.anomaly
        else "The exit status is 3."
    )
    yield (
        f"{expected} Faults and inputs are the same in each run, but the timing of processes is not. "
        "If a run does not show the finding, repeat it."
    )
    yield "The new run is in `store/`, with `report.html`, all logs and all records."
    yield ""
    notes = [*parts.notes]
    if parts.commit.endswith(DIRTY):
        notes.append("The run used a clone of Fencepost with changes that are not committed.")
    if notes:
        yield "Before you run it:"
        yield ""
        yield from (f"- {note}" for note in notes)
        yield ""


def _packages(parts: ReadmeParts) -> Iterator[str]:
    """Yield what pip installs. All extras, so that nobody needs to know which of them the run uses.

    There is no release of Fencepost yet, so it comes from the commit that the run used, or else from the newest one.
    """
    commit = parts.commit.removesuffix(DIRTY)
    yield f"fencepost[all] @ git+{REPOSITORY}{f'@{commit}' if commit else ''}"
    if "confluent-kafka" in parts.versions:
        yield f"confluent-kafka=={parts.versions['confluent-kafka']}"


def _client(parts: ReadmeParts) -> str:
    if _is_custom(parts):
        return "its own client"
    return parts.versions.get("workers' client") or str(parts.options.get("client", "an unknown client"))


def _is_custom(parts: ReadmeParts) -> bool:
    return "pipeline" in parts.options


def _versions(parts: ReadmeParts) -> Iterator[str]:
    yield "## Versions and options"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    for name, value in {**parts.versions, **dict(_shown_options(parts))}.items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            yield f"| {_cell(name)} | {_cell(text)} |"
    yield ""
    yield "All options that differ from their defaults are in this table. `run.toml` has the schedule of the faults."
    yield ""


def _shown_options(parts: ReadmeParts) -> Iterator[tuple[str, Any]]:
    """Yield the options that every reader needs, and then those that differ from their defaults."""
    options = {key: value for key, value in parts.options.items() if key != "broker"}
    options |= {f"broker.{name}": value for name, value in parts.options.get("broker", {}).items()}
    for key in _OPTIONS_SHOWN:
        if key in options and not (_is_custom(parts) and key in _OF_WORKLOADS):
            yield key, options[key]
    for key, value in options.items():
        if key not in _OPTIONS_SHOWN and value != parts.defaults.get(key):
            yield key, value


def _faults(parts: ReadmeParts) -> Iterator[str]:
    yield "## Faults"
    yield ""
    if not parts.faults:
        yield "None."
    else:
        yield "| fault | what happened | from | to |"
        yield "| --- | --- | --- | --- |"
    for fault in parts.faults:
        end = "not healed" if fault.end_s is None else f"{fault.end_s:.3f} s"
        yield f"| {_cell(fault.fault)} | {_cell(fault.struck)} | {fault.start_s:.3f} s | {end} |"
    yield ""


def _steps(parts: ReadmeParts) -> Iterator[str]:
    if not parts.steps:
        return
    yield "## The smallest finding, step by step"
    yield ""
    began = f", at {parts.began}" if parts.began else ""
    yield f"This is the trace of {parts.subject}. Times are in seconds since the run began{began}."
    yield ""
    yield from _block(parts.steps[:MOST_STEPS])
    if len(parts.steps) > MOST_STEPS:
        yield f"{len(parts.steps) - MOST_STEPS} more steps are left out."
    yield ""


def _logs(parts: ReadmeParts) -> Iterator[str]:
    yield "## Logs"
    yield ""
    for who, lines in (("brokers", parts.broker_log), ("programs", parts.program_log)):
        if lines is None:
            yield (
                f"The logs of the {who} are left out, because the records of the run are too long to be recognised in "
                "them. `fencepost reproducer --with-values` shows them."
            )
            yield ""
            continue
        if not lines:
            yield f"The logs of the {who} have no line about the finding, or within 2 s of it."
            yield ""
            continue
        yield f"Of the {who}, around the finding, each with its file and line in the run's folder:"
        yield ""
        yield from _block(lines)
        yield ""


def _contents(parts: ReadmeParts) -> Iterator[str]:
    digests = (
        "Contents of records are shown."
        if parts.with_values
        else "`#` and eight digits is the digest of a key, a value or another content of a record. "
        "The same content has the same digest in this folder."
    )
    yield "## What was replaced"
    yield ""
    yield (
        "Secrets and environment variables are `<redacted>`. Hosts are `<host>`, brokers `broker-1:9092` and so on, "
        "users `<user>`, and paths outside of the run `<path>`."
    )
    yield digests
    yield ""
    yield f"Files: {join_words([f'`{_cell(file)}`' for file in parts.files], 100)}."
    yield ""


def _block(lines: Sequence[str]) -> Iterator[str]:
    """Yield a block of code. Its fence is longer than each one in the lines."""
    fence = "~~~~"
    while any(fence in line for line in lines):
        fence += "~"
    yield f"{fence}text"
    yield from (line.rstrip() for line in lines)
    yield fence


def _cell(value: object) -> str:
    return printable(value, 1000).replace("|", "\\|")
