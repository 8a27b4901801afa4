"""The public API: it runs the command as a process, and reads the verdict from its output."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

from fencepost.api_types import CheckOptions, ExploreOptions, Pipeline, RunOptions
from fencepost.verdict_types import FaultDocument, VerdictDocument

DEFAULT_COMMAND = (sys.executable, "-P", "-m", "fencepost")
"""`-P` keeps the working directory off `sys.path`."""

COMMAND_VARIABLE = "FENCEPOST_COMMAND"
"""Environment variable with the command of another installation, quoted as for a shell: `pipx run fencepost`."""

MESSAGE_FILE_VARIABLE = "FENCEPOST_LAST_WORDS"
"""Environment variable with the path of a file. A command that ends without a verdict writes its message there."""

CHECK_TIMEOUT_S = 120.0
"""Seconds that a run has to heal its faults and to check, after a time-out or an interruption."""


class FencepostFailed(Exception):
    """A command ended without a verdict.

    `exit_status` is 2 (wrong usage), 4 (failure) or 130 (interrupted). The text is the message of the command.
    """

    def __init__(self, exit_status: int, message: str) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Result:
    """The verdict on one history. `verdict` is the content of `verdict.json`."""

    valid: bool | None  # None: unknown
    exit_status: int  # of this history: 0 valid, 1 invalid, 2 cannot be read, 3 unknown
    verdict: VerdictDocument
    folder: Path

    @property
    def anomalies(self) -> frozenset[str]:
        """The names of the anomalies that make the history invalid: they were found and are not allowed."""
        anomalies = self.verdict.get("anomalies", {})
        return frozenset(name for name, body in anomalies.items() if not body["allowed"])

    @property
    def allowed_anomalies(self) -> frozenset[str]:
        """The names of the anomalies that do not change the verdict: allowed ones and warnings."""
        return frozenset(self.verdict.get("anomalies", {})) - self.anomalies

    @property
    def faults(self) -> Sequence[FaultDocument]:
        """The reports of the faults, ordered by start time. Empty for an external history."""
        return self.verdict.get("faults", ())

    @property
    def reasons(self) -> frozenset[str]:
        """The codes of the reasons why the history cannot be valid. `fencepost explain CODE` explains a code."""
        return frozenset(reason["code"] for reason in self.verdict.get("unknown_because", ()))

    @property
    def report(self) -> Path | None:
        """The path of the HTML report. None for an external history."""
        report = self.folder / "report.html"
        return report if report.is_file() else None

    @property
    def seed(self) -> int | None:
        """The seed from which the faults were drawn. None for an external history."""
        return self.verdict.get("seed")

    @property
    def repeat(self) -> str | None:
        """The shell command that repeats the run. None for an external history, or if `run.toml` was removed."""
        try:
            document = tomllib.loads((self.folder / "run.toml").read_text(encoding="utf-8"))
            command: str | None = document["run"]["command"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return command

    def assert_valid(self) -> None:
        """Raise an AssertionError if the history is not valid.

        The message lists the anomalies, the report, and the command that repeats the run.
        """
        __tracebackhide__ = True  # so that pytest shows the line of the caller
        if self.valid is not True:
            raise AssertionError(self.explain())

    def explain(self) -> str:
        """Describe the verdict in a few lines.

        The text has each anomaly with its first example, the report, and the command that repeats the run.
        """
        lines = [f"{self.word}: {self.verdict.get('summary') or self.verdict.get('error', '')}"]
        forbidden = [(n, f) for n, f in self.verdict.get("anomalies", {}).items() if not f.get("allowed")]
        for name, findings in sorted(
            forbidden, key=lambda item: bool(item[1].get("because"))
        ):  # causes first
            because = f", because of {findings['because']}" if findings.get("because") else ""
            lines.append(f"  {name}: {findings['count']}{because}")
            lines += [f"    first: {sentence}" for sentence in findings.get("sentences", ())[:1]]
        lines += [f"  {reason['text']}" for reason in self.verdict.get("unknown_because", ())]
        links = {"report": self.report, "repeat": self.repeat}
        return "\n".join([*lines, *(f"{key}: {value}" for key, value in links.items() if value)])

    @property
    def word(self) -> str:
        """The verdict as a word: valid, invalid or unknown."""
        return {True: "valid", False: "invalid", None: "unknown"}[self.valid]


class RunFunction(Protocol):
    """The type of `fencepost.run`, and of the fixture `fencepost` in pytest."""

    def __call__(self, *, timeout_s: float | None = None, **options: Unpack[RunOptions]) -> Result:
        """Run a pipeline on a cluster, inject faults, and check whether the result is correct."""
        ...


def run(*, timeout_s: float | None = None, **options: Unpack[RunOptions]) -> Result:
    """Run a pipeline on a cluster, inject faults, and check whether the result is correct.

        result = fencepost.run(workload="shop", nemesis=["kill-broker"], time_limit=30, seed=7)
        assert "lost-input" not in result.anomalies

    The call returns when there is a verdict. Messages of the command go to standard error.

    Args:
        timeout_s: Seconds after which the run is ended. None: no limit.
        options: The options of `fencepost run` and of its `--set`, with underscores. None means the default. `broker`
            has settings of the brokers: `broker={"log.segment.bytes": "1048576"}`. `pipeline` is the path of a
            pipeline.toml, or a `fencepost.Pipeline`.

    Raises:
        FencepostFailed: There is no verdict.
        subprocess.TimeoutExpired: `timeout_s` has passed.
    """
    __tracebackhide__ = True
    pipeline = options.get("pipeline")
    if isinstance(pipeline, Pipeline):
        options["pipeline"] = str(pipeline.save(Path(options.get("store") or "store") / "pipelines"))
    results = _call(["run", "--json", *option_words(options)], timeout_s)
    return results[-1]


def rule(
    api: str, action: str, **names: str | float | bool | Mapping[str, str | float | bool | Sequence[str]]
) -> str:
    """Return a rule for Kafka's messages, for the option `rule`. docs/rules.md explains the names.

        fencepost.run(rule=fencepost.rule("EndTxn", "drop", nth=3, fields={"Committed": False}))

    Args:
        api: The API, as Kafka calls it.
        action: hold, delay, drop, duplicate, swap, error, close or edit.
        names: The other names of the rule. `fields`, `set` and `release` are mappings. `after` and `state` of a
            release may be lists.
    """
    table: dict[str, object] = {"api": api, "action": action}
    for name, value in names.items():
        table |= (
            {f"{name}.{key}": each for key, each in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
    return ",".join(f"{name}={_rule_value(value)}" for name, value in table.items())


def _rule_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def check(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    timeout_s: float | None = None,
    **options: Unpack[CheckOptions],
) -> list[Result]:
    """Check stored runs and external histories. Returns a `Result` for each, in the order of `paths`.

    A folder can contain several runs. Raises as `run` does.

    Args:
        paths: Folders of runs, folders that contain runs, or files of histories.
        options: `master` and `spark_conf` (the Spark that checks), `blind` (check stored runs without the journals of
            their workers), `allow` (names of anomalies that do not make a history invalid) and `out` (the file to which
            the report of one external history is written as a page, too).
    """
    path_list = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return _call(
        ["check", "--json", *option_words(options), "--", *(os.fspath(path) for path in path_list)], timeout_s
    )


@dataclass(frozen=True)
class Explored:
    """The outcome of an exploration of a client."""

    valid: bool | None  # None: unknown
    cases: Mapping[str, int]  # all, tried, right, wrong, fenced, stuck, not_met, not_offered, unsteady
    findings: Sequence[Mapping[str, Any]]  # request, kind, anomalies, cases, smallest, alone
    not_in_it: Sequence[str]  # what was not tried
    folder: Path

    @property
    def anomalies(self) -> frozenset[str]:
        """The names of the anomalies of all findings."""
        return frozenset(name for finding in self.findings for name in finding["anomalies"])

    @property
    def report(self) -> Path:
        """The path of the HTML page."""
        return self.folder / "report.html"

    @property
    def word(self) -> str:
        """The verdict as a word: valid, invalid or unknown."""
        return {True: "valid", False: "invalid", None: "unknown"}[self.valid]

    def assert_valid(self) -> None:
        """Raise an AssertionError unless all cases were tried and none was wrong, stuck or not met."""
        __tracebackhide__ = True
        if self.valid is not True or self.cases["tried"] < self.cases["all"]:
            raise AssertionError(self.explain())

    def explain(self) -> str:
        """Describe the outcome in a few lines: the counts, each finding with its smallest case, and the page."""
        counts = ", ".join(f"{count:,} {name}" for name, count in self.cases.items() if count)
        wrong = [
            f"  {finding['request']}: {', '.join(finding['anomalies'])}, for example {finding['smallest']}"
            for finding in self.findings
        ]
        return "\n".join([f"{self.word}: {counts}", *wrong, f"report: {self.report}"])


def explore(*, timeout_s: float | None = None, **options: Unpack[ExploreOptions]) -> Explored:
    """Try every single fault on the messages of small transactional programs of a client.

        fencepost.explore(client="java", programs=["CC", "AC"]).assert_valid()

    An exploration that was interrupted goes on. Raises as `run` does.

    Args:
        timeout_s: Seconds after which the exploration is interrupted. None: no limit.
        options: The options of `fencepost explore`, with underscores. None means the default.
    """
    __tracebackhide__ = True
    words: list[str] = []
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] if value else []
        elif value is not None:
            words += [flag, ",".join(value) if isinstance(value, list | tuple) else str(value)]
    ((outcome, _),) = _outcomes(["explore", "--json", *words], timeout_s)
    valid = outcome["valid"] if isinstance(outcome["valid"], bool) else None
    names = ("cases", "findings", "not_in_it")
    return Explored(valid, **{name: outcome[name] for name in names}, folder=Path(outcome["folder"]))


def replay(
    folder: str | os.PathLike[str],
    *,
    without_defect: bool = False,
    store: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
) -> Result:
    """Repeat a stored run on a new cluster, with the same options and the same schedule of faults.

    Raises as `run` does.

    Args:
        without_defect: Run the pipeline without its defect, as a control of a run that had one.
        store: The folder for the new run. None: the store of the first run.
    """
    words = ["--without-defect"] if without_defect else []
    words += ["--store", os.fspath(store)] if store is not None else []
    return _call(["replay", "--json", *words, "--", os.fspath(folder)], timeout_s)[-1]


def command() -> list[str]:
    """The command to start: the value of `COMMAND_VARIABLE` if it is set, else this installation."""
    text = os.environ.get(COMMAND_VARIABLE)
    return shlex.split(text) if text else list(DEFAULT_COMMAND)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Translate options into arguments of the command line. The command itself validates them."""
    words: list[str] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        flag = f"--{name}"
        if value is None:
            continue
        if name == "spark-conf":
            words += [word for entry, setting in value.items() for word in (flag, f"{entry}={setting}")]
        elif isinstance(value, Mapping):
            words += [
                word for entry, setting in value.items() for word in ("--set", f"{name}.{entry}={setting}")
            ]
        elif name == "rule":
            words += [
                word for rule in ([value] if isinstance(value, str) else value) for word in (flag, rule)
            ]
        elif name == "blind":
            words += [flag] if value else []
        elif name in ("master", "out"):
            words += [flag, str(value)]
        elif name == "allow":
            words += [flag, value if isinstance(value, str) else ",".join(value)]
        else:
            text = ",".join(value) if isinstance(value, list | tuple) else str(value)
            words += ["--set", f"{name}={text}"]
    return words


def _call(arguments: Sequence[str], timeout_s: float | None) -> list[Result]:
    """Run the command until it ends, and return the verdicts."""
    __tracebackhide__ = True
    return [_result(verdict, status) for verdict, status in _outcomes(arguments, timeout_s)]


def _outcomes(arguments: Sequence[str], timeout_s: float | None) -> list[tuple[Any, int]]:
    """Run the command until it ends. Returns each line of JSON on its standard output, with its exit status.

    Standard error is inherited.
    """
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="fencepost-api-") as folder:
        message_file = Path(folder) / "last-words"
        environment = {**os.environ, MESSAGE_FILE_VARIABLE: str(message_file)}
        try:
            process = subprocess.Popen(
                [*command(), *arguments],
                stdout=subprocess.PIPE,
                stderr=None,
                text=True,
                env=environment,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise FencepostFailed(4, f"`{shlex.join(command())}` cannot be started: {error}") from None
        with process:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise subprocess.TimeoutExpired(f"fencepost {arguments[0]}", timeout_s or 0) from None
            finally:
                if process.poll() is None:
                    _end(process)
        message = message_file.read_text(encoding="utf-8") if message_file.exists() else ""
    results = [(json.loads(line), process.returncode) for line in output.splitlines() if line.startswith("{")]
    if not results:
        details = f": {message}" if message else ""
        raise FencepostFailed(
            process.returncode, f"`fencepost {arguments[0]}` ended with {process.returncode}{details}"
        )
    return results


def _end(process: subprocess.Popen[str]) -> None:
    """End a run. After a first signal it heals its faults and checks. After a second one it only cleans up."""
    process.terminate()
    try:
        process.wait(CHECK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()


def _result(verdict: VerdictDocument, exit_status: int) -> Result:
    valid = verdict["valid"] if isinstance(verdict["valid"], bool) else None
    if exit_status in (0, 1, 2, 3):  # with several histories, compute the status of this one
        exit_status = 2 if "error" in verdict else {True: 0, False: 1, None: 3}[valid]
    return Result(valid, exit_status, verdict, Path(verdict["history"]))
