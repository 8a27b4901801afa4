"""Remove what killed runs left behind, on this machine and on a shared cluster.

The topics and groups of a run on a shared cluster have names that begin with its tag. The names of a run that has not
ended begin with a tag too, so only the topics and groups of an idle tag are removed. A tag is idle if its groups have
no members and its topics have no recent records. A name that may belong to a run with another prefix is not removed.
"""

import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fencepost.registry import command_line
from harness.cluster import admin, operations
from harness.cluster.admin import NO_BROKER, NO_SUCH_GROUP, RequestRefused
from harness.cluster.connecting import (
    ANSWER_TIMEOUT_S,
    CLEAN_UP_TIMEOUT_S,
    ask_any,
    bootstrap_servers,
    reach_brokers,
    retry_unless_forbidden,
)
from harness.cluster.questions import retry
from harness.common.errors import EnvironmentFailure, ExitStatus, UsageError
from harness.common.wording import duration, plural, printable
from harness.containers.daemon import remove_abandoned
from harness.environment.cache import cache_folder
from harness.processes.guardian import sweep_leftovers
from harness.settings.kinds import IDLE, longest_prefix, prefix_of, tag_of
from harness.settings.options import Options
from harness.wire.protocol import Target, WireError

WITHOUT_MEMBERS = ("Empty", NO_SUCH_GROUP)
NON_EMPTY_GROUP = 68
Entries = list[dict[str, Any]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class LeftGroup:
    """A group of a killed run.

    `members` is the number of its members. None: it has members, but their number is not known.
    """

    name: str
    members: int | None


@dataclass(frozen=True)
class IdleTime:
    """The least age of the newest record of an idle tag. `words`: the age as the user wrote it (`45m`)."""

    seconds: float
    words: str


@dataclass(frozen=True)
class Leftovers:
    """The topics and groups of one tag."""

    tag: str
    topics: tuple[str, ...]
    groups: tuple[LeftGroup, ...]
    written_ms: int | None = None  # the timestamp of the newest record; None: there is no record
    unknown: str | None = None  # why it is not known whether the tag is in use

    def reason_to_keep(self, now_ms: float, idle: IdleTime, *, named: bool = False) -> str | None:
        """Return why the tag must not be removed. None if it is idle.

        `named`: the user named this tag, so no run with it is starting.
        """
        if self.unknown is not None:
            return f"left alone: {self.unknown}"
        prefix = self.tag.rpartition("-")[0]
        for name in (*self.topics, *(group.name for group in self.groups)):
            longest = longest_prefix(name) or prefix
            if longest != prefix:
                return (
                    f"left alone: {printable(name)} may be of a run with the prefix {longest}; if it is yours, "
                    f"clean it with --set prefix={longest}"
                )
        for group in self.groups:
            if group.members != 0:
                how_many = "members" if group.members is None else plural(group.members, "member")
                return f"still in use: the group {printable(group.name)} has {how_many}"
        if self.topics and self.written_ms is None and not named:
            return "left alone: a run with this tag may be starting; if none is, name the tag to delete it"
        if self.written_ms is not None and now_ms - self.written_ms < idle.seconds * 1000:
            return f"less than --idle {idle.words}"
        return None

    def age(self, now_ms: float) -> str:
        """Return how long ago the newest record was written. 0 if its timestamp is in the future."""
        return duration(max(0.0, now_ms - (self.written_ms or 0)) / 1000)


@dataclass(frozen=True)
class RemovalReport:
    """The names of the removed topics and groups, and one sentence for each failure."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    failures: tuple[str, ...]


def find_leftovers(
    brokers: Mapping[int, Target], prefix: str, tags: Collection[str] | None = None
) -> list[Leftovers]:
    """Find the topics and groups of runs with this prefix. With `tags`: only of these tags.

    Raises `EnvironmentFailure`.
    """
    view = retry(partial(ask_any, brokers, _fetch_all_topics), "the cluster's topics")
    states = retry(lambda: _group_states(brokers), "the cluster's groups")
    topics_of, groups_of = _by_tag({*view.topics, *view.topic_errors}, prefix), _by_tag(states, prefix)
    return [
        leftovers
        for tag in sorted(topics_of.keys() | groups_of.keys())
        if tags is None or tag in tags
        for leftovers in _inspect(
            brokers, tag, topics_of.get(tag, ()), {group: states[group] for group in groups_of.get(tag, ())}
        )
    ]


def remove_leftovers(brokers: Mapping[int, Target], leftovers: Leftovers) -> RemovalReport:
    """Remove the groups of a tag, then its topics. Stop if a group has a new member."""
    prefix = prefix_of(leftovers.tag)
    removed: dict[str, list[str]] = {"topics": [], "groups": []}
    failures: list[str] = []

    def try_to_remove(kind: str, name: str, act: Callable[[], None]) -> None:
        try:
            retry_unless_forbidden(act, "Delete", name, prefix)
        except _InUse:
            raise
        except EnvironmentFailure as failure:
            failures.append(f"{printable(name)} was not removed: {failure}")
        else:
            removed[kind].append(name)

    try:
        for group in leftovers.groups:
            try_to_remove("groups", group.name, partial(_delete_group, brokers, group.name))
        for topic in leftovers.topics:
            delete = partial(operations.delete_topics, topics=[topic], timeout_s=CLEAN_UP_TIMEOUT_S)
            try_to_remove("topics", topic, partial(ask_any, brokers, delete))
    except _InUse as error:
        failures.append(str(error))
    return RemovalReport(tuple(removed["topics"]), tuple(removed["groups"]), tuple(failures))


class _InUse(EnvironmentFailure):
    """A group has a new member, so it must not be removed."""


def _fetch_all_topics(broker: Target) -> admin.BrokerView:
    return admin.fetch_view(broker, ANSWER_TIMEOUT_S)


def _group_states(brokers: Mapping[int, Target]) -> dict[str, str]:
    """Return the state of every group. Each broker lists only the groups that it coordinates."""
    states: dict[str, str] = {}
    for answer in admin.ask_all(brokers, lambda broker: admin.list_groups(broker, ANSWER_TIMEOUT_S)).values():
        if isinstance(answer, WireError):
            raise answer
        states |= answer
    return states


def _by_tag(names: Iterable[str], prefix: str) -> dict[str, list[str]]:
    by_tag: dict[str, list[str]] = {}
    for name in sorted(names):
        if tag := tag_of(name, prefix):
            by_tag.setdefault(tag, []).append(name)
    return by_tag


def _inspect(
    brokers: Mapping[int, Target], tag: str, names: Sequence[str], states: Mapping[str, str]
) -> list[Leftovers]:
    """Inspect the topics `names` and the groups of one tag. Empty if its run has removed everything in the meantime."""
    prefix = prefix_of(tag)
    groups = tuple(
        LeftGroup(group, 0 if state in WITHOUT_MEMBERS else None) for group, state in states.items()
    )
    try:
        # A broker lists only the groups that the user may see. It does not report that it hides others.
        retry_unless_forbidden(
            partial(ask_any, brokers, partial(_find_coordinator, group=tag)), "Describe", tag, prefix
        )
        groups = tuple(
            group
            if group.members == 0
            else retry_unless_forbidden(
                partial(_count_members, brokers, group.name), "Describe", group.name, prefix
            )
            for group in groups
        )
        existing, written_ms = retry_unless_forbidden(
            partial(_find_newest_record, brokers, names), "Describe", tag, prefix
        )
    except EnvironmentFailure as failure:
        return [Leftovers(tag, tuple(names), groups, unknown=str(failure))]
    return [Leftovers(tag, existing, groups, written_ms)] if existing or groups else []


def _find_coordinator(broker: Target, group: str) -> int:
    return admin.find_coordinator(broker, group, admin.GROUP, ANSWER_TIMEOUT_S)


def _coordinator(brokers: Mapping[int, Target], group: str) -> Target:
    broker = ask_any(brokers, partial(_find_coordinator, group=group))
    return _broker(brokers, broker, f"coordinates the group {group}")


def _broker(brokers: Mapping[int, Target], broker: int, role: str) -> Target:
    """Return a broker's address. Raises `WireError` if Fencepost is not connected to this broker."""
    if broker == NO_BROKER or broker not in brokers:
        raise WireError(f"no known broker {role}")
    return brokers[broker]


def _count_members(brokers: Mapping[int, Target], group: str) -> LeftGroup:
    """Count the members of a group. Their number is None if the group has a protocol that Fencepost does not know."""
    state, members = admin.describe_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    return LeftGroup(group, None if state == NO_SUCH_GROUP else len(members))


def _find_newest_record(
    brokers: Mapping[int, Target], names: Sequence[str]
) -> tuple[tuple[str, ...], int | None]:
    """Return the topics that still exist, and the newest timestamp in them. It is None if they have no records."""
    view = ask_any(brokers, lambda broker: admin.fetch_view(broker, ANSWER_TIMEOUT_S, names))
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for name in names:
        if view.topic_errors.get(name, operations.UNKNOWN_TOPIC) != operations.UNKNOWN_TOPIC:
            raise RequestRefused(f"describing the topic {name}", view.topic_errors[name])
        for number, partition in view.topics.get(name, {}).items():
            by_leader.setdefault(partition.leader, []).append((name, number))
    newest = -1
    for leader, partitions in by_leader.items():
        topic, number = partitions[0]
        broker = _broker(brokers, leader, f"leads {topic}/{number}")
        answers = admin.list_offsets_and_timestamps(
            broker, partitions, admin.MAX_TIMESTAMP, 0, ANSWER_TIMEOUT_S
        )
        newest = max(newest, *(answer.timestamp for answer in answers.values()))
    return tuple(sorted(view.topics)), None if newest < 0 else newest


def _delete_group(brokers: Mapping[int, Target], group: str) -> None:
    try:
        operations.delete_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    except RequestRefused as error:
        if error.code == NON_EMPTY_GROUP:
            raise _InUse(
                f"the group {printable(group)} has a new member, so it and the topics were not removed"
            ) from error
        raise


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
