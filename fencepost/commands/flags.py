"""Turn the options of `harness.settings.options` into flags of click, and read the values of these flags."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, TypeVar

import click

from harness.settings.options import FIELDS, parse

F = TypeVar("F", bound=Callable[..., Any])
REPEATABLE = frozenset({"spark-conf", "rule"})
"""The options whose flags may be repeated."""


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
