"""The command line: what is asked, which exit status answers, and one sentence for each error."""

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

import click

from fencepost.api import MESSAGE_FILE_VARIABLE
from harness.common.errors import ExitStatus, FencepostError, UsageError
from harness.common.names import unknown
from harness.common.secrets import redact_text
from harness.settings.options import FIELDS

COMMANDS = (
    "run", "check", "report", "replay", "trace", "suite", "sweep", "bench", "list", "explain",
    "doctor", "clean", "init",
)  # fmt: skip
HIDDEN = ("_serve",)
"""Commands that no user calls."""
NAME = "fencepost"
UNREAD = "the program that was to read the output has ended"
SHOWS = ("list", "explain", "trace")
"""Commands that decide nothing: whoever stops reading, as `head` does, has seen enough."""


class CommandGroup(click.Group):
    """The commands, each in a file of `fencepost/commands`, loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in (*COMMANDS, *HIDDEN):
            return None
        command: click.Command = import_module(f"fencepost.commands.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was probably meant."""
        if not args[0].startswith("-") and args[0] not in (*COMMANDS, *HIDDEN):
            raise UsageError(unknown("command", args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(version(NAME), prog_name=NAME)
def command_group() -> None:
    """Break a Kafka cluster under an exactly-once pipeline, and judge what came of it.

    \b
    Example:
      fencepost run --time-limit 60
      fencepost run --defect no-rewind
      fencepost check store/latest
    """


def run_command_line(arguments: Sequence[str]) -> int:
    """Carry out one command; returns the exit status. What nobody foresaw goes to `report_bug`."""
    sys.excepthook = report_bug
    if sys.stdout is None:  # whoever started us has closed it
        print(f"{NAME}: standard output is closed: {UNREAD}", file=sys.stderr)
        return ExitStatus.FAILURE
    if not arguments:
        print(command_group.make_context(NAME, [], resilient_parsing=True).get_help(), file=sys.stderr)
        return ExitStatus.USAGE
    try:
        status = command_group.main(args=list(arguments), prog_name=NAME, standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except (click.ClickException, FencepostError, KeyboardInterrupt, click.Abort) as error:
        words, status = _answer(error)
        _say_last(redact_text(words))
        return status
    except (BrokenPipeError, SystemExit):  # click makes a SystemExit(1) of a broken pipe, which is no verdict
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in it is for nobody
        if arguments[:1] and arguments[0] in SHOWS:
            return ExitStatus.VALID
        _say_last(f"a pipe broke: {UNREAD}")
        return ExitStatus.FAILURE


def _say_last(words: str) -> None:
    """The sentence with which a command ends; who called it as an API finds it in a file of its own."""
    if told := os.environ.get(MESSAGE_FILE_VARIABLE):
        with suppress(OSError):
            Path(told).write_text(words, encoding="utf-8", errors="replace")
    try:
        print(f"{NAME}: {words}", file=sys.__stderr__, flush=True)
    except OSError:  # nobody reads that either: what is left in it would fail once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _answer(error: BaseException) -> tuple[str, ExitStatus]:
    """One sentence and the exit status, for what was foreseen."""
    if isinstance(error, FencepostError):
        return str(error), error.exit_status
    if isinstance(error, click.ClickException):
        words = _sentence(error) if isinstance(error, click.UsageError) else error.format_message()
        return words, ExitStatus.USAGE
    return "interrupted", ExitStatus.INTERRUPTED


def _sentence(error: click.UsageError) -> str:
    """What click has to say, in the words of the house."""
    command = error.ctx.command_path if error.ctx else NAME
    if isinstance(error, click.NoSuchOption):
        written = error.option_name
        known = [name for p in error.ctx.command.params for name in p.opts] if error.ctx else []
        key = written.lstrip("-").replace("_", "-")
        if key in FIELDS and "--set" in known:
            return f"{written} is not a flag: set it with --set {key}=VALUE"
        return f"{unknown('option', written, known)} (all of them: {command} --help)"
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The interpreter's hook for what nobody caught: one sentence, the traceback in a file, status 4."""
    words = redact_text("".join(traceback.format_exception(kind, error, trace)))
    what = redact_text(f"{kind.__name__}: {error}".splitlines()[0])
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="fencepost-bug-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(words)
        where = f"the traceback is in {file.name}"
    except OSError as trouble:
        where = f"the traceback could not be written ({trouble})"
    cause = "the system refused" if isinstance(error, OSError) else "this is a mistake in Fencepost"
    print(f"{NAME}: {cause}: {what}; {where}", file=sys.stderr)
    raise SystemExit(ExitStatus.FAILURE)
