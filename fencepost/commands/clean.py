"""`fencepost clean`."""

import json
import sys

import click

from fencepost import registry
from fencepost.commands import options as asking
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.errors import ExitStatus, UsageError
from harness.common.names import on_one_line
from harness.settings.kinds import Duration
from harness.settings.options import Options, parse_set
from harness.settings.tags import IDLE, tag_of

TAKEN = ("cluster", "bootstrap", "client-config", "prefix")
"""The options of a run that say on which cluster it left something, and with which names."""


@click.command("clean")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@asking.option_flags("cluster")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="of an external cluster: bootstrap, client-config, prefix",
)
@click.option("--delete", is_flag=True, help="delete the topics and groups of the tags that are idle")
@click.option(
    "--idle",
    metavar="TIME",
    help=f"a tag is idle if its last record is older than this (90s, 45m, 2h)  [default: {IDLE}]",
)
@click.option("--json", "as_json", is_flag=True, help="print a list of objects; words go to standard error")
def command(
    tags: tuple[str, ...],
    cluster: str | None,
    sets: tuple[str, ...],
    delete: bool,
    idle: str | None,
    as_json: bool,
) -> ExitStatus:
    """Remove what killed runs have left.

    Without options: their processes, scratch folders and containers on this machine. Runs that go on keep theirs.

    With --cluster external: list the topics and groups that runs have left on that cluster, one line for each TAG
    (the prefix, a hyphen and six hex digits). --delete deletes those of the tags that are idle: none of the groups has
    members, and the last record is older than --idle. Name tags to look at these alone. What a run left on purpose
    (--keep topics) stays, and so do topics without records: docs/external-clusters.md says how to delete them.

    Exit status: 0; 4 if the cluster does not answer or something could not be deleted, 2 for wrong usage.

    \b
    Example:
      fencepost clean
      fencepost clean --cluster external --set bootstrap=kafka-1:9092
      fencepost clean --cluster external --set bootstrap=kafka-1:9092 --delete
      fencepost clean --cluster external --set bootstrap=kafka-1:9092 --delete --idle 2h fencepost-3fa91c
    """
    options = _options(cluster, sets)
    there = CLUSTERS[options.cluster].shared
    if not there:
        _require_nothing_of_a_cluster(tags, delete, idle)
    for tag in tags:
        _require_tag(tag, options.prefix)
    idle_s = Duration().parse("idle", idle or IDLE)

    from fencepost.cleaning import CleanRequest, clean_cluster, clean_machine
    from harness.cluster.left_behind import IdleTime

    words = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        print(line, file=words, flush=True)

    if there:
        told, status = clean_cluster(
            options, CleanRequest(tags, delete, IdleTime(idle_s, (idle or IDLE).strip())), say
        )
    else:
        told, status = clean_machine(say)
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
    return status


def _options(cluster: str | None, sets: tuple[str, ...]) -> Options:
    """The options that say where to look. Raises `UsageError`."""
    for key in (key for assignment in sets for key in parse_set(assignment)):
        if key not in TAKEN:
            raise UsageError(f"clean takes --set {', '.join(TAKEN[1:])}, and no {key}: leave out --set {key}")
    return asking.options_from({"cluster": cluster}, sets, None).validated(registry.known_names())


def _require_nothing_of_a_cluster(tags: tuple[str, ...], delete: bool, idle: str | None) -> None:
    """Raise `UsageError` for what has no meaning where no cluster outlives its run."""
    given = {
        f"the tag {on_one_line(''.join(tags[:1]))}": tags,
        "--delete": delete,
        "--idle": idle is not None,
    }
    if names := [name for name, there in given.items() if there]:
        raise UsageError(
            f"{names[0]} needs --cluster external and --set bootstrap=HOST:PORT,...: on this machine `fencepost clean` "
            "removes all that killed runs have left"
        )


def _require_tag(tag: str, prefix: str) -> None:
    if tag_of(tag, prefix) != tag:
        raise UsageError(
            f'"{on_one_line(tag)}" is not a tag: a tag is {prefix}- and six hex digits, as {prefix}-3fa91c '
            "(another prefix: --set prefix=PREFIX)"
        )
