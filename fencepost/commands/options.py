"""Make the options of a run from the values of its flags, and complete them."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost import registry
from fencepost.cli import REPEATABLE, flag_values
from harness.cluster.kinds.registry import check_brokers_option
from harness.common.errors import UsageError
from harness.settings.options import FIELDS, Options, parse_set
from harness.settings.run_file import StoredPlan


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
    given = {key for values in [*from_sets, *from_flags] for key in values}
    if "workload" in given and options.pipeline is not None:
        raise UsageError("workload and pipeline are both given, and a run has one of them: leave one out")
    from_file = () if plan.run else _changed(options)  # the user did not write the options of a stored run
    check_brokers_option(options.cluster, {*from_file, *given})
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
