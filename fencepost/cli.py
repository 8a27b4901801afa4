"""The command line: find the command, make its flags, run it, and put each error into one sentence."""

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click

from fencepost.api import MESSAGE_FILE_VARIABLE
from harness.common.errors import ExitStatus, FencepostError, UsageError
from harness.common.wording import redact_text, unknown
from harness.settings.options import FIELDS, parse

COMMANDS = {
    "run": "Run a pipeline under faults, and check it.",
    "check": "Check stored runs and external histories.",
    "report": "Write the report of a stored run again.",
    "replay": "Run a stored run again, on a new cluster.",
    "trace": "Show what happened to one record or operation.",
    "export": "Write a stored run as a trace for Perfetto.",
    "reproducer": "Make a folder from an invalid run, to attach to a bug report.",
    "suite": "Run a matrix of runs, with one result page.",
    "compare": "Show two runs, or two suites, next to each other.",
    "sweep": "Crash a worker at every step of its loop.",
    "explore": "Try every single fault on the messages of small programs.",
    "known-bugs": "Show known bugs of Kafka and of its clients.",
    "list": "List workloads, faults, defects, anomalies, ...",
    "explain": "Explain a reason code, or an anomaly.",
    "doctor": "List what a run needs, and what is missing.",
    "clean": "Remove what killed runs have left behind.",
    "init": "Write a pipeline.toml to describe your own pipeline.",
}
"""The commands in the order of the help text, with its line about each. So `fencepost --help` loads no command."""
HIDDEN = ("_serve",)
"""Commands that only Fencepost itself calls."""
NAME = "fencepost"
NO_READER = "the program that reads the output has ended"
READ_ONLY = ("list", "explain", "trace", "compare")
"""Commands without a verdict. If their reader ends early, like `head`, that is not a failure."""
F = TypeVar("F", bound=Callable[..., Any])
REPEATABLE = frozenset({"spark-conf", "rule"})
"""The options whose flags may be repeated."""


class CommandGroup(click.Group):
    """Loads each command from its file in `fencepost/commands` when it is first used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help text."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in (*COMMANDS, *HIDDEN):
            return None
        command: click.Command = import_module(f"fencepost.commands.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a command if the name is unknown."""
        if not args[0].startswith("-") and args[0] not in (*COMMANDS, *HIDDEN):
            raise UsageError(unknown("command", args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(version(NAME), prog_name=NAME)
def command_group() -> None:
    """Inject faults into a Kafka cluster while a pipeline runs on it, then check whether the result is correct.

    \b
    Example:
      fencepost run --time-limit 60
      fencepost run --defect no-rewind
      fencepost check store/latest
    """


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. An unexpected exception goes to `report_bug`."""
    sys.excepthook = report_bug
    if sys.stdout is None:  # the parent process closed it
        print(f"{NAME}: standard output is closed: {NO_READER}", file=sys.stderr)
        return ExitStatus.FAILURE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal may lack a character, such as those of a user's names
            stream.reconfigure(errors="backslashreplace")
    if not arguments:
        print(command_group.make_context(NAME, [], resilient_parsing=True).get_help(), file=sys.stderr)
        return ExitStatus.USAGE
    try:
        status = command_group.main(args=list(arguments), prog_name=NAME, standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except (click.ClickException, FencepostError, KeyboardInterrupt, click.Abort) as error:
        message, status = _describe(error)
        _print_last(redact_text(message))
        return status
    except (BrokenPipeError, SystemExit):
        # click turns a broken pipe into SystemExit(1), which would mean "invalid"
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing reads what is still in the buffer
        if arguments[:1] and arguments[0] in READ_ONLY:
            return ExitStatus.VALID
        _print_last(f"a pipe broke: {NO_READER}")
        return ExitStatus.FAILURE


def _print_last(message: str) -> None:
    """Print the message with which a command ends. If the Python API started the command, write it to a file too."""
    if path := os.environ.get(MESSAGE_FILE_VARIABLE):
        with suppress(OSError):
            Path(path).write_text(message, encoding="utf-8", errors="replace")
    try:
        print(f"{NAME}: {message}", file=sys.__stderr__, flush=True)
    except OSError:  # standard error has no reader either: flushing it at exit would fail once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _describe(error: BaseException) -> tuple[str, ExitStatus]:
    """One sentence and the exit status for an expected error."""
    if isinstance(error, FencepostError):
        return str(error), error.exit_status
    if isinstance(error, click.ClickException):
        message = _usage_message(error) if isinstance(error, click.UsageError) else error.format_message()
        return message, ExitStatus.USAGE
    return "interrupted", ExitStatus.INTERRUPTED


def _usage_message(error: click.UsageError) -> str:
    """Rewrite a usage error of click in the style of our own messages."""
    command = error.ctx.command_path if error.ctx else NAME
    if isinstance(error, click.NoSuchOption):
        flag = error.option_name
        known = [name for p in error.ctx.command.params for name in p.opts] if error.ctx else []
        key = flag.lstrip("-").replace("_", "-")
        if key in FIELDS and "--set" in known:
            return f"{flag} is not a flag: set it with --set {key}=VALUE"
        return f"{unknown('option', flag, known)} (all of them: {command} --help)"
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an uncaught exception (`sys.excepthook`): print one sentence, save the traceback, exit with status 4."""
    details = redact_text("".join(traceback.format_exception(kind, error, trace)))
    summary = redact_text(f"{kind.__name__}: {error}".splitlines()[0])
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="fencepost-bug-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(details)
        location = f"the traceback is in {file.name}"
    except OSError as save_error:
        location = f"the traceback could not be saved ({save_error})"
    cause = "the operating system refused" if isinstance(error, OSError) else "this is a bug in Fencepost"
    print(f"{NAME}: {cause}: {summary}; {location}", file=sys.stderr)
    raise SystemExit(ExitStatus.FAILURE)


def option_flags(*keys: str) -> Callable[[F], F]:
    """Add a flag for each key. Values stay text here, because `Options` parses and validates all of them."""

    def decorate(function: F) -> F:
        for key in reversed(keys):
            field = FIELDS[key]
            repeatable = key in REPEATABLE
            function = click.option(
                f"--{key}",
                metavar=_metavar(key),
                multiple=repeatable,
                help=field.metadata["help"] + default_of(key),
            )(function)
        return function

    return decorate


def default_of(key: str) -> str:
    """`  [default: 3]` for the help text. Empty if there is no default value: then the help text explains it."""
    default = FIELDS[key].default
    return "" if default in (None, ()) or default is MISSING else f"  [default: {_text(default)}]"


def json_flag(function: F) -> F:
    """Add the flag `--json`."""
    text = "print verdict.json in one line for each history; messages go to standard error"
    return click.option("--json", "as_json", is_flag=True, help=text)(function)


def run_keys() -> list[str]:
    """The options with a flag. The others need `--set`."""
    return [key for key, field in FIELDS.items() if field.metadata["flag"]]


def flag_values(flags: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parse the values that click read. Returns one mapping for each flag that is set."""
    texts = [
        (key, text)
        for key, value in flags.items()
        for text in (value if isinstance(value, tuple) else [value])
    ]
    return [parse(key, text) for key, text in texts if text is not None]


def _text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def _metavar(key: str) -> str:
    names = {
        "time-limit": "SECONDS",
        "store": "DIR",
        "master": "URL",
        "nemesis": "NAMES",
        "spark-conf": "K=V",
        "rule": "RULE",
        "schedule": "FILE",
    }
    return names.get(key, "VALUE")
