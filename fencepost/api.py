"""The public API: the command, started as a process, and its verdict read back."""

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

from fencepost.api_types import CheckOptions, FaultDocument, RunOptions, VerdictDocument
from fencepost.your_pipeline import Pipeline

DEFAULT_COMMAND = (sys.executable, "-P", "-m", "fencepost")
"""`-P`: the folder that one happens to stand in is no place to import from."""

COMMAND_VARIABLE = "FENCEPOST_COMMAND"
"""Names the command of another installation, as a shell would read it: `pipx run fencepost`."""

MESSAGE_FILE_VARIABLE = "FENCEPOST_LAST_WORDS"
"""Names the file for the sentence with which a command ends that has no verdict."""

JUDGED_WITHIN_S = 120.0
"""How long a run that was given up may heal and judge."""


class FencepostFailed(Exception):
    """There is no verdict: wrong usage (2), a failure (4), or an interruption (130)."""

    def __init__(self, exit_status: int, message: str) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Result:
    """The verdict on one history. `verdict` is what `verdict.json` holds."""

    valid: bool | None  # None: unknown
    exit_status: int  # of this history: 0 valid, 1 invalid, 2 cannot be read, 3 unknown
    verdict: VerdictDocument
    folder: Path

    @property
    def anomalies(self) -> frozenset[str]:
        """The names of the anomalies that make the history invalid: those that were found and are not allowed."""
        found = self.verdict.get("anomalies", {})
        return frozenset(name for name, body in found.items() if not body["allowed"])

    @property
    def allowed_anomalies(self) -> frozenset[str]:
        """The names of the anomalies that were found and decide nothing: the allowed ones, and warnings."""
        return frozenset(self.verdict.get("anomalies", {})) - self.anomalies

    @property
    def faults(self) -> Sequence[FaultDocument]:
        """What each fault did, in the order in which they began; empty of an external history."""
        return self.verdict.get("faults", ())

    @property
    def reasons(self) -> frozenset[str]:
        """The codes of the reasons for which the history cannot be valid: `fencepost explain CODE` explains one."""
        return frozenset(reason["code"] for reason in self.verdict.get("unknown_because", ()))

    @property
    def report(self) -> Path | None:
        """The HTML report; None of an external history, which has none."""
        report = self.folder / "report.html"
        return report if report.is_file() else None

    @property
    def seed(self) -> int | None:
        """What its faults were drawn from; None of an external history."""
        return self.verdict.get("seed")

    @property
    def repeat(self) -> str | None:
        """The command that repeats the run; None of an external history, or where `run.toml` is gone."""
        try:
            document = tomllib.loads((self.folder / "run.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        command: str | None = document.get("run", {}).get("command")
        return command

    def assert_valid(self) -> None:
        """Raise an AssertionError that says what was found, where the report is, and how to repeat the run."""
        __tracebackhide__ = True  # pytest shows the caller's line, not ours
        if self.valid is not True:
            raise AssertionError(self.explain())

    def explain(self) -> str:
        """The verdict in a few lines: each anomaly with its first example, the report, the command that repeats it."""
        lines = [f"{self.word}: {self.verdict.get('summary') or self.verdict.get('error', '')}"]
        counted = [(n, f) for n, f in self.verdict.get("anomalies", {}).items() if not f.get("allowed")]
        for name, found in sorted(counted, key=lambda one: bool(one[1].get("because"))):  # causes first
            because = f", because of {found['because']}" if found.get("because") else ""
            lines.append(f"  {name}: {found['count']}{because}")
            lines += [f"    first: {sentence}" for sentence in found.get("sentences", ())[:1]]
        lines += [f"  {reason['text']}" for reason in self.verdict.get("unknown_because", ())]
        told = {"report": self.report, "repeat": self.repeat}
        return "\n".join([*lines, *(f"{key}: {value}" for key, value in told.items() if value)])

    @property
    def word(self) -> str:
        """valid, invalid or unknown."""
        return {True: "valid", False: "invalid", None: "unknown"}[self.valid]


class RunFunction(Protocol):
    """The type of `fencepost.run`, and of the fixture `fencepost` in pytest."""

    def __call__(self, *, timeout_s: float | None = None, **options: Unpack[RunOptions]) -> Result:
        """Break a cluster under a pipeline, and check what happened."""
        ...


def run(*, timeout_s: float | None = None, **options: Unpack[RunOptions]) -> Result:
    """Break a cluster under a pipeline, and check what happened.

        result = fencepost.run(workload="shop", nemesis=["kill-broker"], time_limit=30, seed=7)
        assert "lost-input" not in result.anomalies

    `options` are those of `fencepost run`, with underscores, and those of `--set`. `broker` holds settings of the
    brokers: `broker={"log.segment.bytes": "1048576"}`. `pipeline` is the path of a pipeline.toml, or a
    `fencepost.Pipeline`. None is the default. The call blocks until the verdict is there. Messages of the command go to
    standard error. Raises `FencepostFailed` if there is no verdict, `subprocess.TimeoutExpired` after `timeout_s`.
    """
    __tracebackhide__ = True
    pipeline = options.get("pipeline")
    if isinstance(pipeline, Pipeline):
        options["pipeline"] = str(pipeline.save(Path(options.get("store") or "store") / "pipelines"))
    results = _call(["run", "--json", *option_words(options)], timeout_s)
    return results[-1]


def check(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    timeout_s: float | None = None,
    **options: Unpack[CheckOptions],
) -> list[Result]:
    """Check stored runs again, and external histories, each in its own `Result`, in the order given.

    `options` are `master`, `spark_conf`, `blind` (check stored runs without the journals of their workers) and
    `allow`, names of anomalies that do not make a history invalid.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return _call(
        ["check", "--json", *option_words(options), "--", *(os.fspath(path) for path in given)], timeout_s
    )


def replay(
    folder: str | os.PathLike[str],
    *,
    without_defect: bool = False,
    store: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
) -> Result:
    """Run a stored run's options and schedule again, on a new cluster.

    `without_defect` runs the pipeline right this time: the control of a run that had a defect. `store`: where the new
    run is kept, if not beside the first. Raises as `run` does.
    """
    words = ["--without-defect"] if without_defect else []
    words += ["--store", os.fspath(store)] if store is not None else []
    return _call(["replay", "--json", *words, "--", os.fspath(folder)], timeout_s)[-1]


def command() -> list[str]:
    """What is started: this installation, or the one that the environment names."""
    named = os.environ.get(COMMAND_VARIABLE)
    return shlex.split(named) if named else list(DEFAULT_COMMAND)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Options as the command line has them; the command itself says what is wrong with them."""
    words: list[str] = []
    for written, value in options.items():
        name = written.replace("_", "-")
        flag = f"--{name}"
        if value is None:
            continue
        if name == "spark-conf":
            words += [word for key, setting in value.items() for word in (flag, f"{key}={setting}")]
        elif isinstance(value, Mapping):
            words += [word for key, setting in value.items() for word in ("--set", f"{name}.{key}={setting}")]
        elif name == "blind":
            words += [flag] if value else []
        elif name == "master":
            words += [flag, str(value)]
        elif name == "allow":
            words += [flag, value if isinstance(value, str) else ",".join(value)]
        else:
            text = ",".join(value) if isinstance(value, list | tuple) else str(value)
            words += ["--set", f"{name}={text}"]
    return words


def _call(arguments: Sequence[str], timeout_s: float | None) -> list[Result]:
    """Run the command to its end. Its standard error is shown as it comes, its verdicts are read."""
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="fencepost-api-") as folder:
        last_words = Path(folder) / "last-words"
        environment = {**os.environ, MESSAGE_FILE_VARIABLE: str(last_words)}
        try:
            process = subprocess.Popen(
                [*command(), *arguments], stdout=subprocess.PIPE, stderr=None, text=True, env=environment
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
                    _give_up(process)
        why = last_words.read_text(encoding="utf-8") if last_words.exists() else ""
    results = [
        _result(json.loads(line), process.returncode) for line in output.splitlines() if line.startswith("{")
    ]
    if not results:
        said = f": {why}" if why else ""
        raise FencepostFailed(
            process.returncode, f"`fencepost {arguments[0]}` ended with {process.returncode}{said}"
        )
    return results


def _give_up(process: subprocess.Popen[str]) -> None:
    """End a run: the first signal has it healed and judged, a second, if that takes too long, cleaned up only."""
    process.terminate()
    try:
        process.wait(JUDGED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.terminate()


def _result(verdict: VerdictDocument, exit_status: int) -> Result:
    valid = verdict["valid"] if isinstance(verdict["valid"], bool) else None
    if exit_status in (0, 1, 2, 3):  # of several histories each has its own
        exit_status = 2 if "error" in verdict else {True: 0, False: 1, None: 3}[valid]
    return Result(valid, exit_status, verdict, Path(verdict["history"]))
