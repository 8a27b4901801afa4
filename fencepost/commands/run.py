"""`fencepost run`."""

import sys
from contextlib import closing
from typing import Any

import click

from fencepost.command_line import command_line
from fencepost.commands import options as asking
from fencepost.commands import output as telling
from fencepost.runs.progress import progress_for
from harness.common.errors import ExitStatus
from harness.settings.options import FIELDS

OTHERS = "\b\nOptions without a flag; set them with --set KEY=VALUE:\n" + "\n".join(
    f"  {key:<17} {field.metadata['help']}{asking.default_of(key)}"
    for key, field in FIELDS.items()
    if not field.metadata["flag"]
)


@click.command("run", epilog=OTHERS)
@asking.option_flags(*asking.run_keys())
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="any option of run.toml; broker.NAME=VALUE"
)
@click.option("--config", metavar="FILE", help="a run.toml to begin with; the command line wins")
@asking.json_flag
def command(sets: tuple[str, ...], config: str | None, as_json: bool, **given: Any) -> ExitStatus:
    """Break a cluster under a pipeline, and judge it.

    Exit status: 0 valid, 1 invalid, 2 wrong usage, 3 unknown, 4 failure.

    \b
    Example:
      fencepost run --nemesis kill-broker,pause-worker --time-limit 60 --seed 42
      fencepost run --defect offsets-outside-transaction
      fencepost run --set java=bundled --set broker.log.segment.bytes=1048576
    """
    options = asking.settle(asking.options_from(given, sets, config))

    from fencepost.runs.carry_out import run

    words = command_line(options)
    with closing(progress_for(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        verdict, folder = run(options, progress, command=words)
    telling.print_run(verdict, folder, words, as_json=as_json)
    return verdict.valid.exit_status
