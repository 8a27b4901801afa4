"""Remove what killed runs left behind, on this machine and on a shared cluster."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.command_line import command_line
from harness.cluster.connecting import bootstrap_servers, reach_brokers
from harness.cluster.left_behind import IdleTime, Leftovers, RemovalReport, find_leftovers, remove_leftovers
from harness.common.errors import EnvironmentFailure, ExitStatus, UsageError
from harness.common.wording import plural
from harness.containers.daemon import remove_abandoned
from harness.environment.cache import cache_folder
from harness.processes.guardian import sweep_leftovers
from harness.settings.kinds import IDLE
from harness.settings.options import Options
from harness.wire.protocol import Target

Entries = list[dict[str, Any]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class CleanRequest:
    """The options of `fencepost clean` for a shared cluster."""

    tags: tuple[str, ...]  # empty: all tags
    delete: bool
    idle: IdleTime


def clean_machine(say: Say) -> tuple[Entries, ExitStatus]:
    """Remove what runs left on this machine. Remove nothing of a run that may still be running.

    Returns the entries of `--json` and the exit status.
    """
    removed, status = sweep_leftovers(), ExitStatus.VALID
    try:
        removed += remove_abandoned(cache_folder())
    except EnvironmentFailure as failure:
        status = ExitStatus.FAILURE
        say(f"killed runs may have left containers: {failure}")
    for leftover in removed:
        say(f"removed: {leftover}")
    if not removed and status is ExitStatus.VALID:
        say("nothing was left")
    return [{"removed": leftover} for leftover in removed], status


def clean_cluster(options: Options, request: CleanRequest, say: Say) -> tuple[Entries, ExitStatus]:
    """List what runs left on a shared cluster. If the request says so, delete the topics and groups of idle tags.

    Returns the entries of `--json` and the exit status. Raises `FencepostError` for a tag that the cluster does not
    have, and if the cluster does not answer.
    """
    brokers = reach_brokers(bootstrap_servers(options.bootstrap, options.client_config))
    all_leftovers = find_leftovers(brokers, options.prefix, request.tags or None)
    if missing := sorted(set(request.tags) - {leftovers.tag for leftovers in all_leftovers}):
        raise UsageError(
            f"nothing on the cluster has the tag {missing[0]}: leave out the tag to list all tags"
        )
    if not all_leftovers:
        say("nothing was left")
    entries: Entries = []
    failed = idle = False
    for leftovers in _look_again(brokers, options.prefix, all_leftovers) if request.delete else all_leftovers:
        now_ms = time.time() * 1000
        reason_to_keep = leftovers.reason_to_keep(now_ms, request.idle, named=leftovers.tag in request.tags)
        removed = remove_leftovers(brokers, leftovers) if request.delete and reason_to_keep is None else None
        outcome = reason_to_keep or _describe_removal(leftovers, removed)
        say(f"{leftovers.tag}  {_describe(leftovers, now_ms)}; {outcome}")
        for failure in removed.failures if removed else ():
            say(f"  {failure}")
        entries.append(_as_json(leftovers, reason_to_keep, removed))
        idle = idle or reason_to_keep is None
        failed = (
            failed or (request.delete and leftovers.unknown is not None) or bool(removed and removed.failures)
        )
    if idle and not request.delete:
        say(f"to delete the idle tags: {_delete_command(options, request)}")
    return entries, ExitStatus.FAILURE if failed else ExitStatus.VALID


def _look_again(
    brokers: Mapping[int, Target], prefix: str, all_leftovers: Sequence[Leftovers]
) -> Iterator[Leftovers]:
    """Look at each tag again right before its deletion. Since the listing, a client may have begun to use it."""
    for leftovers in all_leftovers:
        yield from find_leftovers(brokers, prefix, [leftovers.tag])


def _describe(leftovers: Leftovers, now_ms: float) -> str:
    """`4 topics, 2 groups without members, written 3 h 12 min ago`."""
    groups = plural(len(leftovers.groups), "group")
    if leftovers.groups and all(group.members == 0 for group in leftovers.groups):
        groups += " without members"
    parts = [plural(len(leftovers.topics), "topic"), groups]
    if leftovers.unknown is None:
        parts.append("no records" if leftovers.written_ms is None else f"written {leftovers.age(now_ms)} ago")
    return ", ".join(parts)


def _describe_removal(leftovers: Leftovers, removed: RemovalReport | None) -> str:
    if removed is None:
        return "idle"
    if not removed.failures:
        return "deleted"
    counts = {
        "topic": (len(removed.topics), len(leftovers.topics)),
        "group": (len(removed.groups), len(leftovers.groups)),
    }
    parts = [f"{deleted} of {plural(total, kind)}" for kind, (deleted, total) in counts.items() if total]
    return f"deleted {' and '.join(parts)}"


def _delete_command(options: Options, request: CleanRequest) -> str:
    """The command that deletes the idle tags of the listing."""
    idle = [] if request.idle.words == IDLE else ["--idle", request.idle.words]
    return f"{command_line(options, 'clean')} {shlex.join(['--delete', *idle, *request.tags])}"


def _as_json(
    leftovers: Leftovers, reason_to_keep: str | None, removed: RemovalReport | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "tag": leftovers.tag,
        "topics": leftovers.topics,
        "groups": [{"name": group.name, "members": group.members} for group in leftovers.groups],
        "last_record_ms": leftovers.written_ms,
        "idle": reason_to_keep is None,
        "because": reason_to_keep,
    }
    if removed is not None:
        entry["deleted"] = {"topics": removed.topics, "groups": removed.groups}
        entry["failures"] = removed.failures
    return entry
