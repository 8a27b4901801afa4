"""How the commands ask: the click options of `harness.settings.options`, and the options that came of them."""

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


def option_flags(*keys: str) -> Callable[[F], F]:
    """A flag for each of these keys; all are read as text, and judged in one place."""

    def decorate(function: F) -> F:
        for key in reversed(keys):
            field = FIELDS[key]
            many = key == "spark-conf"
            function = click.option(
                f"--{key}",
                metavar="K=V" if many else _metavar(key),
                multiple=many,
                help=field.metadata["help"] + default_of(key),
            )(function)
        return function

    return decorate


def default_of(key: str) -> str:
    """`  [default: 3]`, for the help; nothing where the words say what holds if the option is not given."""
    default = FIELDS[key].default
    return "" if default is None or default is MISSING else f"  [default: {_shown(default)}]"


def json_flag(function: F) -> F:
    """`--json`."""
    words = "print verdict.json in one line for each history; words go to standard error"
    return click.option("--json", "as_json", is_flag=True, help=words)(function)


def run_keys() -> list[str]:
    """The keys that have a flag of their own."""
    return [key for key, field in FIELDS.items() if field.metadata["flag"]]


def options_from(given: Mapping[str, Any], sets: Sequence[str], config: str | None) -> Options:
    """Defaults, then the file, then `--set`, then the flags. Raises `UsageError`."""
    plan = StoredPlan.load(Path(config)) if config else StoredPlan(Options())
    options = plan.options
    from_sets = [parse_set(assignment) for assignment in sets]
    flags = flag_values(given)
    twice = {key for values in from_sets for key in values} & {key for values in flags for key in values}
    for key in twice - {"spark-conf"}:
        raise UsageError(f"{key} is given twice, by --{key} and by --set; say it once")
    for values in [*from_sets, *flags]:
        options = options.updated(values)
    written = () if plan.run else _changed(options)  # what a run stored, nobody wrote
    check_brokers_option(
        options.cluster, {*written, *(key for values in [*from_sets, *flags] for key in values)}
    )
    return options


def _changed(options: Options) -> list[str]:
    """The keys that are not as they are by default."""
    default = Options()
    return [key for key, one in FIELDS.items() if getattr(options, one.name) != getattr(default, one.name)]


def settle(options: Options) -> Options:
    """The options as the run will have them: validated, with a seed, and with what its defect needs to show."""
    options = _provoking(options.validated(registry.known_names()))
    return options if options.seed is not None else replace(options, seed=secrets.randbelow(2**32))


def _provoking(options: Options) -> Options:
    """The options with those that the defect needs, where they are as they are by default."""
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


def flag_values(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What click read, by key: one mapping for each flag that was given."""
    texts = [
        (key, text)
        for key, value in given.items()
        for text in (value if isinstance(value, tuple) else [value])
    ]
    return [parse(key, text) for key, text in texts if text is not None]


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def _metavar(key: str) -> str:
    return {"time-limit": "SECONDS", "store": "DIR", "master": "URL", "nemesis": "NAMES"}.get(key, "VALUE")
