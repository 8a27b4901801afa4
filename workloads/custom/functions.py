"""Functions of a user's, loaded from their files; never in the command's own process."""

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.common.errors import UsageError
from workloads.custom.description import UserFunction


class UserError(UsageError):
    """A function of the user's raised, or gave what it may not give: one sentence that names it."""


def _guarded(what: str, act: Callable[[], Any]) -> Any:
    """What it gives. Raises `UserError` where code of the user's raises, or ends the process."""
    try:
        return act()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{what} {describe_exception(error)}") from error


@cache
def _module(file: Path) -> ModuleType:
    # A module beside it can be imported, unless it is called as one of our rooms; its own name cannot be ours.
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location(f"fencepost_user_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module, load = importlib.util.module_from_spec(spec), spec.loader.exec_module
    sys.modules[spec.name] = module
    _guarded(f"{file} cannot be loaded:", lambda: load(module))
    return module


def load_function(function: UserFunction) -> Callable[..., Any]:
    """The function itself. Raises `UserError` where it is not there."""
    found = getattr(_module(function.file), function.name, None)
    if not callable(found):
        raise UserError(f"{function.file} has no function {function.name}")
    kept: Callable[..., Any] = found
    return kept


def call(function: UserFunction, *given: Any) -> Any:
    """What it gives. Raises `UserError` where it raises."""
    return _guarded(f"{function} raised", lambda: load_function(function)(*given))


def describe_exception(error: BaseException) -> str:
    """An exception in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def as_bytes(thing: object, what: str) -> bytes | None:
    """A key or a value as Kafka has it: bytes, text or None. Raises `UserError`."""
    if thing is None or isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        try:
            return thing.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise UserError(f"{what} is no text that UTF-8 can hold: {error}") from error
    raise UserError(f"{what} must be bytes, text or None, not {type(thing).__name__}")
