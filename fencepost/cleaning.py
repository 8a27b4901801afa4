"""Removing what killed runs have left: on this machine, and on a cluster that others use."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.command_line import command_line
from harness.cluster.connecting import bootstrap_servers, reach_brokers
from harness.cluster.left_behind import IdleTime, Leftovers, RemovalReport, find_leftovers, remove_leftovers
from harness.common.errors import EnvironmentFailure, ExitStatus, UsageError
from harness.containers.leftovers import remove_abandoned
from harness.environment.cache import cache_folder
from harness.processes.guardian import sweep_leftovers
from harness.results.wording import plural
from harness.settings.options import Options
from harness.settings.tags import IDLE
from harness.wire.protocol import Target

Told = list[dict[str, Any]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class CleanRequest:
    """What a user asks to have removed from a cluster."""

    tags: tuple[str, ...]  # none: all
    delete: bool
    idle: IdleTime


def clean_machine(say: Say) -> tuple[Told, ExitStatus]:
    """Remove what runs that are certainly over have left on this machine."""
    gone, status = sweep_leftovers(), ExitStatus.VALID
    try:
        gone += remove_abandoned(cache_folder())
    except EnvironmentFailure as failure:
        status = ExitStatus.FAILURE
        say(f"killed runs may have left containers: {failure}")
    for one in gone:
        say(f"removed: {one}")
    if not gone and status is ExitStatus.VALID:
        say("nothing was left")
    return [{"removed": one} for one in gone], status


def clean_cluster(options: Options, asked: CleanRequest, say: Say) -> tuple[Told, ExitStatus]:
    """List what runs have left on a cluster that others use, and delete what is idle, if asked.

    Raises `FencepostError` for a tag that is not there, and where the cluster does not answer.
    """
    brokers = reach_brokers(bootstrap_servers(options.bootstrap, options.client_config))
    lefts = find_leftovers(brokers, options.prefix, asked.tags or None)
    if missing := sorted(set(asked.tags) - {left.tag for left in lefts}):
        raise UsageError(
            f"nothing on the cluster has the tag {missing[0]}: leave out the tag, and see which there are"
        )
    if not lefts:
        say("nothing was left")
    told: Told = []
    failed = idle = False
    for left in _once_more(brokers, options.prefix, lefts) if asked.delete else lefts:
        now_ms = time.time() * 1000
        kept = left.reason_to_keep(now_ms, asked.idle, named=left.tag in asked.tags)
        removed = remove_leftovers(brokers, left) if asked.delete and kept is None else None
        say(f"{left.tag}  {_there(left, now_ms)}; {kept or _removed(left, removed)}")
        for failure in removed.failures if removed else ():
            say(f"  {failure}")
        told.append(_as_json(left, kept, removed))
        idle = idle or kept is None
        failed = failed or (asked.delete and left.unknown is not None) or bool(removed and removed.failures)
    if idle and not asked.delete:
        say(f"to delete what is idle: {_deleting(options, asked)}")
    return told, ExitStatus.FAILURE if failed else ExitStatus.VALID


def _once_more(brokers: Mapping[int, Target], prefix: str, lefts: Sequence[Leftovers]) -> Iterator[Leftovers]:
    """Each as it is now: somebody may have begun to use it while others were deleted, or its run has removed it."""
    for left in lefts:
        yield from find_leftovers(brokers, prefix, [left.tag])


def _there(left: Leftovers, now_ms: float) -> str:
    """`4 topics, 2 groups without members, written 3 h 12 min ago`."""
    groups = plural(len(left.groups), "group")
    if left.groups and all(group.members == 0 for group in left.groups):
        groups += " without members"
    parts = [plural(len(left.topics), "topic"), groups]
    if left.unknown is None:
        parts.append("no records" if left.written_ms is None else f"written {left.age(now_ms)} ago")
    return ", ".join(parts)


def _removed(left: Leftovers, removed: RemovalReport | None) -> str:
    if removed is None:
        return "idle"
    if not removed.failures:
        return "deleted"
    went = {"topic": (removed.topics, left.topics), "group": (removed.groups, left.groups)}
    parts = [f"{len(gone)} of {plural(len(all_), kind)}" for kind, (gone, all_) in went.items() if all_]
    return f"deleted {' and '.join(parts)}"


def _deleting(options: Options, asked: CleanRequest) -> str:
    """The command that deletes what was listed; of how to connect it names the file."""
    idle = [] if asked.idle.words == IDLE else ["--idle", asked.idle.words]
    return f"{command_line(options, 'clean')} {shlex.join(['--delete', *idle, *asked.tags])}"


def _as_json(left: Leftovers, kept: str | None, removed: RemovalReport | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "tag": left.tag,
        "topics": left.topics,
        "groups": [{"name": group.name, "members": group.members} for group in left.groups],
        "last_record_ms": left.written_ms,
        "idle": kept is None,
        "because": kept,
    }
    if removed is not None:
        told["deleted"] = {"topics": removed.topics, "groups": removed.groups}
        told["failures"] = removed.failures
    return told
