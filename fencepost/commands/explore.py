"""`fencepost explore`."""

import sys
from contextlib import closing
from typing import Any

import click

from fencepost.commands import flags as command_flags
from fencepost.commands import options as cli_options
from fencepost.commands import output
from fencepost.runs.progress import progress_for
from harness.common.errors import ExitStatus, UsageError
from harness.common.names import check_name
from harness.settings.kinds import Duration

PROGRAMS = "CC,AC,CA,CKC"


@click.command("explore", short_help="Try every single fault on the messages of small programs.")
@click.option(
    "--programs", metavar="NAMES", default=PROGRAMS, show_default=True, help="programs, see docs/explore.md"
)
@click.option("--kinds", metavar="NAMES", help="kinds of faults, separated by commas  [default: all]")
@click.option(
    "--errors", type=click.Choice(["class", "all"]), default="class", show_default=True,
    help="one error of each class, or each error that an API can answer",
)  # fmt: skip
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
def command(
    programs: str,
    kinds: str | None,
    errors: str,
    at_once: int,
    limit: str | None,
    **flags: Any,
) -> ExitStatus:
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
    from fencepost.explore.space import PARTS, CaseKind

    names = list(dict.fromkeys(name.strip() for name in programs.split(",")))
    for name in names:
        if not name or set(name) - set(PARTS):
            raise UsageError(f"a program has the parts {', '.join(PARTS)}, as in {PROGRAMS}, not {name!r}")
    chosen = list(CaseKind) if kinds is None else [each.strip() for each in kinds.split(",")]
    for each in chosen:
        check_name("kind", each, list(CaseKind))
    limit_s = None if limit is None else Duration().parse("limit", limit)
    only, again, as_json = (flags.pop(name) for name in ("only", "again", "as_json"))
    sets = [
        f"{name.replace('_', '-')}={value}"
        for name in ("driver", "transaction_version")
        if (value := flags.pop(name)) is not None
    ]
    options = cli_options.settle(cli_options.options_from(flags, [f"workers={at_once}", *sets], None))

    from fencepost.explore.explore import explore
    from fencepost.explore.outcome import lines, outcome_of

    with closing(progress_for(sys.stderr)) as progress:
        record, folder = explore(
            options, names, list(map(CaseKind, chosen)), progress,
            all_errors=errors == "all", limit_s=limit_s, only=only, again=again,
        )  # fmt: skip
    stream = sys.stderr if as_json else sys.stdout
    for line in lines(record, folder):
        print(line, file=stream)
    if as_json:
        output.print_json(outcome_of(record, folder))
    return record.validity.exit_status
