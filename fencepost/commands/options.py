"""Turn the options of `harness.settings.options` into flags of click, and the values of flags into `Options`."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from fencepost import registry
from harness.cluster.kinds.registry import check_brokers_option
from harness.common.errors import UsageError
from harness.settings.options import FIELDS, Options, parse, parse_set
from harness.settings.run_file import StoredPlan

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


def options_from(flags: Mapping[str, Any], sets: Sequence[str], config: str | None) -> Options:
    """Combine the defaults, the file `config`, `--set` and the flags. The later ones win. Raises `UsageError`."""
    plan = StoredPlan.load(Path(config)) if config else StoredPlan(Options())
    options = plan.options
    from_sets = [parse_set(assignment) for assignment in sets]
    from_flags = flag_values(flags)
    duplicates = {key for values in from_sets for key in values} & {
        key for values in from_flags for key in values
    }
    for key in duplicates - REPEATABLE:
        raise UsageError(f"{key} is set twice, by --{key} and by --set: remove one of them")
    for values in [*from_sets, *from_flags]:
        options = options.updated(values)
    from_file = () if plan.run else _changed(options)  # the user did not write the options of a stored run
    check_brokers_option(
        options.cluster, {*from_file, *(key for values in [*from_sets, *from_flags] for key in values)}
    )
    return options


def _changed(options: Options) -> list[str]:
    """The keys whose values are not the defaults."""
    default = Options()
    return [
        key for key, field in FIELDS.items() if getattr(options, field.name) != getattr(default, field.name)
    ]


def settle(options: Options) -> Options:
    """Complete the options of a run: validate them, add those that its defect needs, and draw a seed."""
    options = _with_defect_options(options.validated(registry.known_names()))
    return options if options.seed is not None else replace(options, seed=secrets.randbelow(2**32))


def _with_defect_options(options: Options) -> Options:
    """Set the options that the defect needs, unless the user changed them."""
    defect = registry.defects()[options.defect] if options.defect else None
    needed = {} if defect is None else defect.options
    default = Options()
    return options.updated(
        {
            key: value
            for key, value in needed.items()
            if getattr(options, FIELDS[key].name) == getattr(default, FIELDS[key].name)
        }
    )


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
