"""What can go wrong apart from the system under test, and the exit status that each kind has.

Errors are of three kinds and never mixed: the system under test misbehaved (a row in a table of
findings, no exception), the user asked for something that cannot be (`UsageError`,
`UnreadableInput`), or the environment failed (`EnvironmentFailure`). Each message is one sentence
that says what to do; the command line prints it without a traceback.
"""

from collections.abc import Mapping, Sequence, Set
from enum import IntEnum


class ExitStatus(IntEnum):
    """What `run`, `check`, `suite` and `replay` return to the shell."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3
    FAILURE = 4
    INTERRUPTED = 130


class FencepostError(Exception):
    """The root of everything that Fencepost raises on purpose."""

    exit_status = ExitStatus.FAILURE


class UsageError(FencepostError):
    """The user asked for what cannot be: an unknown name, a wrong value, a limit too small."""

    exit_status = ExitStatus.USAGE


class UnreadableInput(FencepostError):
    """A store or a history that cannot be read: missing, damaged, or not one."""

    exit_status = ExitStatus.USAGE


class EnvironmentFailure(FencepostError):
    """Kafka, Java, toxiproxy, Spark, the disk or the network did not do what a run needs."""


class AnalysisFailed(FencepostError):
    """A Spark job failed on a history, for no reason that lies in a file."""


class FetchFailed(EnvironmentFailure):
    """Something pinned could not be had: the message says what was tried, and how to go on."""


class StartFailed(EnvironmentFailure):
    """A process ended or stayed silent where it had to come up."""


class PipelineFailed(EnvironmentFailure):
    """A user's program did not come up, or keeps exiting: of such a run nothing is known."""


class FaultFailed(EnvironmentFailure):
    """A fault could not be injected or healed."""


class WaitTimeout(EnvironmentFailure):
    """A condition did not come true within its bound.

    The message says what was awaited, for how long, and what was last seen.
    """

    def __init__(self, awaited: str, timeout_s: float, last_seen: object) -> None:
        super().__init__(f"waited {timeout_s:g} s for {awaited}; last seen: {in_words(last_seen)}")
        self.awaited = awaited
        self.timeout_s = timeout_s
        self.last_seen = last_seen


def in_words(value: object) -> str:
    """Return a value as a message shows it.

    Text, numbers and errors are shown as they are, and collections item by item. None, and what is empty, is
    "nothing". An object is shown by its class's `__str__`. If the class has none, the message says so, because a
    `repr` tells a user nothing.
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
    return "nothing" if value is None else f"something that cannot be put in words ({type(value).__name__})"
