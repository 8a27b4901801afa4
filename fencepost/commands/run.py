"""`fencepost run`."""

import sys
from contextlib import closing
from typing import Any

import click

from fencepost import cli as command_flags
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.commands.output import progress_for
from fencepost.registry import command_line
from harness.common.errors import ExitStatus
from harness.results.conclusions import CONTROL
from harness.settings.options import FIELDS

OTHER_OPTIONS = "\b\nOptions without a flag; set them with --set KEY=VALUE:\n" + "\n".join(
    f"  {key:<17} {field.metadata['help']}{command_flags.default_of(key)}"
    for key, field in FIELDS.items()
    if not field.metadata["flag"]
)


@click.command("run", short_help="Run a pipeline under faults, and check it.", epilog=OTHER_OPTIONS)
@command_flags.option_flags(*command_flags.run_keys())
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="any option of run.toml; broker.NAME=VALUE"
)
@click.option("--config", metavar="FILE", help="start from this run.toml; the command line overrides it")
@click.option(
    CONTROL,
    "with_control",
    is_flag=True,
    help="first run the same pipeline without faults, into STORE/NAME-control; the report compares both runs",
)
@command_flags.json_flag
def command(
    sets: tuple[str, ...], config: str | None, with_control: bool, as_json: bool, **flags: Any
) -> ExitStatus:
    """Run a pipeline on a cluster, inject faults, and check whether the result is correct.

    Exit status: 0 valid, 1 invalid, 2 wrong usage, 3 unknown, 4 failure.

    \b
    Example:
      fencepost run --nemesis kill-broker,pause-worker --time-limit 60 --seed 42
      fencepost run --defect offsets-outside-transaction
      fencepost run --pipeline pipeline.toml --control
      fencepost run --set java=bundled --set broker.log.segment.bytes=1048576
    """
    options = cli_options.settle(cli_options.options_from(flags, sets, config))

    from fencepost.runs.carry_out import run
    from fencepost.runs.control import run_control

    repeat = command_line(options) + (f" {CONTROL}" if with_control else "")
    with closing(progress_for(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        control = run_control(options, progress) if with_control else None
        verdict, folder = run(options, progress, command=repeat, control=control)
    output.print_run(verdict, folder, repeat, as_json=as_json)
    return verdict.validity.exit_status
