"""`fencepost explore`."""

import sys
from contextlib import closing
from typing import Any

import click

from fencepost import cli as command_flags
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.commands.output import progress_for
from fencepost.exploration.space import BY_DEFAULT, scope_of
from harness.common.errors import ExitStatus
from harness.settings.kinds import Duration

PROGRAMS = "CC,AC,CA,CKC"


@click.command("explore", short_help="Try every single fault on the messages of small programs.")
@click.option(
    "--programs", metavar="NAMES", default=PROGRAMS, show_default=True, help="programs, see docs/explore.md"
)
@click.option(
    "--kinds", metavar="NAMES", help="kinds of faults, separated by commas  [default: all but stall]"
)
@click.option(
    "--errors", type=click.Choice(["class", "all"]), default="class", show_default=True,
    help="one error of each class, or each error that an API can answer",
)  # fmt: skip
@click.option("--members", is_flag=True, help="the workers are members of their consumer group")
@click.option("--pairs", is_flag=True, help="also try a second fault behind each that changes the requests")
@click.option(
    "--brokers", type=click.IntRange(1, 7), default=1, show_default=True, help="brokers of the cluster"
)
@click.option(
    "--at-once", type=click.IntRange(1, 16), default=16, show_default=True, help="cases at the same time"
)
@click.option("--limit", metavar="DURATION", help="begin no batch after this time")
@click.option("--case", "only", metavar="NAME", help='try one case: "CC hold EndTxn#1 > Produce#4"')
@click.option("--again", is_flag=True, help="begin again, also if the last exploration is not finished")
@command_flags.option_flags("client", "kafka", "store")
@click.option("--driver", metavar="FOLDER", help="a folder with driver.toml: a program that is the client")
@click.option("--transaction-version", metavar="N", help="transaction.version of the cluster, 0 to 2")
@click.option("--json", "as_json", is_flag=True, help="print the outcome as a line of JSON")
def command(**flags: Any) -> ExitStatus:
    """Record the requests that a client sends for small transactional programs, and try every single fault on each.

    Each case is one program with one fault: a request that is late, repeated, lost or refused. What was not right in a
    batch is tried three times alone. An exploration that was interrupted goes on.

    Exit status: 0 valid, 1 invalid, 2 wrong usage, 3 unknown, 4 failure.

    \b
    Example:
      fencepost explore
      fencepost explore --client java --transaction-version 2
      fencepost explore --case "CC hold EndTxn#1 > Produce#4"
    """
    limit, only, again, as_json = (flags.pop(name) for name in ("limit", "only", "again", "as_json"))
    kinds, errors = flags.pop("kinds"), flags.pop("errors")
    scope = scope_of(
        flags.pop("programs").split(","),
        BY_DEFAULT if kinds is None else kinds.split(","),
        all_errors=errors == "all",
        **{name: flags.pop(name) for name in ("members", "pairs", "brokers")},
    )
    limit_s = None if limit is None else Duration().parse("limit", limit)
    sets = [
        f"{name}={value}"
        for name, key in (
            ("workers", "at_once"),
            ("driver", "driver"),
            ("transaction-version", "transaction_version"),
        )
        if (value := flags.pop(key)) is not None
    ]
    options = cli_options.settle(cli_options.options_from(flags, sets, None))

    from fencepost.exploration.explorer import explore
    from fencepost.exploration.outcome import lines, outcome_of

    with closing(progress_for(sys.stderr)) as progress:
        record, folder = explore(options, scope, progress, limit_s=limit_s, only=only, again=again)
    stream = sys.stderr if as_json else sys.stdout
    for line in lines(record, folder):
        print(line, file=stream)
    if as_json:
        output.print_json(outcome_of(record, folder))
    return record.validity.exit_status
