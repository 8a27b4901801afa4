"""`fencepost clean`."""

import sys

import click

from fencepost import cli as command_flags
from fencepost import registry
from fencepost.commands import options as cli_options
from fencepost.commands import output
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.errors import ExitStatus, UsageError
from harness.common.wording import on_one_line
from harness.settings.kinds import IDLE, Duration, tag_of
from harness.settings.options import Options, parse_set

CLUSTER_KEYS = ("cluster", "bootstrap", "client-config", "prefix")
"""Options of a run that identify the cluster it used, and the names of its topics and groups."""


@click.command("clean")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@command_flags.option_flags("cluster")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="an option of the external cluster: bootstrap, client-config or prefix",
)
@click.option("--delete", is_flag=True, help="delete the topics and groups of idle tags")
@click.option(
    "--idle",
    metavar="TIME",
    help=f"a tag is idle if its last record is older than this (90s, 45m, 2h)  [default: {IDLE}]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="print a list of objects; messages go to standard error"
)
def command(
    tags: tuple[str, ...],
    cluster: str | None,
    sets: tuple[str, ...],
    delete: bool,
    idle: str | None,
    as_json: bool,
) -> ExitStatus:
    """Remove what killed runs have left behind.

    Without options, this removes their processes, scratch folders and containers on this machine. It leaves running
    runs alone.

    With --cluster external, this lists the topics and groups that runs left on that cluster: one line for each TAG (the
    prefix, a hyphen and six hex digits). Name tags to see only these. --delete deletes the topics and groups of idle
    tags. A tag is idle if none of its groups has members and its last record is older than --idle. Topics that a run
    kept on purpose (--keep topics) and topics without records stay: docs/external-clusters.md explains how to delete
    them.

    Exit status: 0 success, 2 wrong usage, 4 the cluster does not answer or something could not be deleted.

    \b
    Example:
      fencepost clean
      fencepost clean --cluster external --set bootstrap=kafka-1:9092
      fencepost clean --cluster external --set bootstrap=kafka-1:9092 --delete
      fencepost clean --cluster external --set bootstrap=kafka-1:9092 --delete --idle 2h fencepost-3fa91c
    """
    options = _options(cluster, sets)
    is_shared = CLUSTERS[options.cluster].shared
    if not is_shared:
        _refuse_cluster_options(tags, delete, idle)
    for tag in tags:
        _require_tag(tag, options.prefix)
    idle_s = Duration().parse("idle", idle or IDLE)

    from fencepost.cleaning import CleanRequest, IdleTime, clean_cluster, clean_machine

    stream = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    if is_shared:
        entries, status = clean_cluster(
            options, CleanRequest(tags, delete, IdleTime(idle_s, (idle or IDLE).strip())), say
        )
    else:
        entries, status = clean_machine(say)
    if as_json:
        output.print_json(entries, indent=1)
    return status


def _options(cluster: str | None, sets: tuple[str, ...]) -> Options:
    """The options that identify the cluster. Raises `UsageError`."""
    for key in (key for assignment in sets for key in parse_set(assignment)):
        if key not in CLUSTER_KEYS:
            raise UsageError(
                f"clean has no option {key}: leave out --set {key} (--set takes {', '.join(CLUSTER_KEYS[1:])})"
            )
    return cli_options.options_from({"cluster": cluster}, sets, None).validated(registry.known_names())


def _refuse_cluster_options(tags: tuple[str, ...], delete: bool, idle: str | None) -> None:
    """Raise `UsageError` for tags and options that need an external cluster."""
    is_set = {
        f"the tag {on_one_line(''.join(tags[:1]))}": tags,
        "--delete": delete,
        "--idle": idle is not None,
    }
    if names := [name for name, value in is_set.items() if value]:
        raise UsageError(
            f"{names[0]} needs an external cluster: add --cluster external and --set bootstrap=HOST:PORT,... (without "
            "options, `fencepost clean` removes what killed runs left on this machine)"
        )


def _require_tag(tag: str, prefix: str) -> None:
    if tag_of(tag, prefix) != tag:
        raise UsageError(
            f'"{on_one_line(tag)}" is not a tag: a tag is {prefix}- and six hex digits, such as {prefix}-3fa91c '
            "(for another prefix: --set prefix=PREFIX)"
        )
