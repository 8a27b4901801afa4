"""Load and call a user's functions, and convert what they return to what Kafka stores.

Only separate processes load them, never the process of the command itself.
"""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.common.errors import UsageError
from harness.model.expectation import Headers, InputRecord
from workloads.custom.description import CustomTopic, UserFunction

RECORD_FIELDS = ("headers", "timestamp_ms", "partition")
"""The fields of a record that a function gets if it has a parameter of this name."""
ROOT_MARKS = ("pyproject.toml", "pytest.ini", "setup.cfg", "setup.py", "tox.ini", ".git")
"""Files of the root folder of a project. pytest finds its rootdir by most of them."""
IMPORT_VARIABLE = "FENCEPOST_IMPORT_PATH"
"""The environment variable with pytest's rootdir and its `pythonpath`. The plugin sets it."""
MOST_MS = 2**63 - 1
TIMESTAMP_TYPE = "message.timestamp.type"
OWN_PACKAGES = ("checkers", "fencepost", "harness", "nemeses", "reports", "workloads")


class UserError(UsageError):
    """A user's function raised, or returned a wrong value. The message names the function."""


def _call_guarded(message: str, act: Callable[[], Any]) -> Any:
    """Call `act`. Raises `UserError` if the user's code raises or exits. Its text begins with `message`."""
    try:
        return act()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{message} {describe_exception(error)}{_how_to_import(error)}") from error


def import_folders(file: Path) -> list[Path]:
    """Return the folders from which a user's file can import modules: its own, and those of its project.

    The root folder of the project is the nearest one above the file with a file of `ROOT_MARKS`. A project may have its
    packages in `src`. In a session of pytest, the folders from which it imports follow.
    """
    root = next(
        (folder for folder in file.parents if any((folder / mark).exists() for mark in ROOT_MARKS)), None
    )
    of_project = [] if root is None else [root, root / "src"]
    of_pytest = [Path(path) for path in os.environ.get(IMPORT_VARIABLE, "").split(os.pathsep) if path]
    return [folder for folder in dict.fromkeys([file.parent, *of_project, *of_pytest]) if folder.is_dir()]


def _how_to_import(error: BaseException) -> str:
    """Return what to do about a module that was not found; empty for another error."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package in OWN_PACKAGES:
        return f": Fencepost has a package {package} of its own: rename yours"
    folders = ", ".join(map(str, _FOLDERS)) or "none"
    return (
        f": it is neither in Fencepost's environment nor in one of these folders: {folders}; install it, or add "
        f"the folder that contains {package} to PYTHONPATH"
    )


_FOLDERS: dict[Path, None] = {}
"""The folders that were added to `sys.path`, in their order."""


@cache
def _module(file: Path) -> ModuleType:
    # Fencepost's packages are loaded first, so that a user's package with the name of one does not replace it.
    for package in OWN_PACKAGES:
        importlib.import_module(package)
    for folder in import_folders(file):
        _FOLDERS[folder] = None
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(f"fencepost_user_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module, load = importlib.util.module_from_spec(spec), spec.loader.exec_module
    sys.modules[spec.name] = module
    _call_guarded(f"{file} cannot be loaded:", lambda: load(module))
    return module


def load_function(function: UserFunction) -> Callable[..., Any]:
    """Return the function. Raises `UserError` if it does not exist."""
    attribute = getattr(_module(function.file), function.name, None)
    if not callable(attribute):
        raise UserError(f"{function.file} has no function {function.name}")
    function_object: Callable[..., Any] = attribute
    return function_object


def call(function: UserFunction, *arguments: Any) -> Any:
    """Call the function. Raises `UserError` if it raises."""
    return _call_guarded(f"{function} raised", lambda: load_function(function)(*arguments))


def call_with_record(function: UserFunction, record: InputRecord, *arguments: Any) -> Any:
    """Call the function, and pass the fields of the record that are among its parameters.

    Raises `UserError` if it raises.
    """
    fields = {name: getattr(record, name) for name in _named_fields(function, len(arguments))}
    if "headers" in fields:
        fields["headers"] = dict(record.headers)
    return _call_guarded(f"{function} raised", lambda: load_function(function)(*arguments, **fields))


@cache
def _named_fields(function: UserFunction, positional: int) -> tuple[str, ...]:
    """Return the names in `RECORD_FIELDS` that are parameters of the function after the positional arguments."""
    try:
        parameters = list(inspect.signature(load_function(function)).parameters.values())[positional:]
    except (TypeError, ValueError):  # a function in C has no signature
        return ()
    named = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    return tuple(name for name in RECORD_FIELDS if name in named)


def describe_exception(error: BaseException) -> str:
    """Return the type and message of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def as_bytes(content: object, name: str) -> bytes | None:
    """Return a key or a value as Kafka stores it.

    Raises `UserError` if `content` is not bytes, text or None. `name` is its name in the message.
    """
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise UserError(f"{name} cannot be encoded as UTF-8: {error}") from error
    raise UserError(f"{name} must be bytes, text or None, not {type(content).__name__}")


def as_headers(where: str, headers: object) -> Headers:
    """Return headers as pairs, from a mapping or a list of pairs; None: no headers.

    Raises `UserError` with a text that begins with `where`.
    """
    if headers is None:
        return ()
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    wrong_headers = UserError(f"{where}: headers must be a mapping or a list of pairs, not {headers!r}")
    if not isinstance(pairs, list | tuple):
        raise wrong_headers
    try:
        return tuple(
            (_header_name(where, name), as_bytes(content, f"{where}: header {name}"))
            for name, content in pairs
        )
    except (TypeError, ValueError):
        raise wrong_headers from None


def _header_name(where: str, name: object) -> str:
    """Return the name as text. Raises `UserError` if Kafka cannot store it."""
    text = str(name)
    as_bytes(text, f"{where}: the name of a header")
    return text


def as_timestamp_ms(where: str, timestamp_ms: object, settings: CustomTopic | None = None) -> int | None:
    """Return a time stamp; None: the record has none. Raises `UserError` with a text that begins with `where`.

    0 is refused, because librdkafka sends the present time instead.
    """
    if timestamp_ms is None:
        return None
    if not _is_whole(timestamp_ms, 1, MOST_MS):
        raise UserError(
            f"{where}: timestamp_ms must be the milliseconds since 1970, a whole number from 1 on, "
            f"not {timestamp_ms!r}"
        )
    if settings is not None and settings.config.get(TIMESTAMP_TYPE) == "LogAppendTime":
        raise UserError(
            f"{where}: timestamp_ms has no effect, because the topic has {TIMESTAMP_TYPE} = LogAppendTime: "
            "remove one of the two"
        )
    assert isinstance(timestamp_ms, int)
    return timestamp_ms


def as_partition(where: str, partition: object, partitions: int | None = None) -> int | None:
    """Return a partition; None: the record has none. Raises `UserError` with a text that begins with `where`.

    Args:
        where: names the record.
        partition: what the user gave.
        partitions: the number of partitions of the topic; None: it is not known.
    """
    if partition is None:
        return None
    if not _is_whole(partition, 0, MOST_MS if partitions is None else partitions - 1):
        last = "" if partitions is None else f" to {partitions - 1}"
        because = "" if partitions is None else f", because the topic has {partitions} partitions"
        raise UserError(f"{where}: partition must be a whole number from 0{last}{because}, not {partition!r}")
    assert isinstance(partition, int)
    return partition


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
