"""What runs have left on a cluster that others use: found by the form of their tags, and removed if nobody uses it.

A run that is killed removes nothing there. One that goes on has names of the same form, so what is found is judged by
its use: a group with members is in use, and so are topics that were written a short time ago. A name that may be of a
run with another prefix is taken for somebody else's.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.cluster import admin, group_members, topics
from harness.cluster.admin import NO_BROKER, RequestRefused
from harness.cluster.connecting import ANSWER_TIMEOUT_S, CLEAN_UP_TIMEOUT_S, ask_any, retry_unless_forbidden
from harness.cluster.group_members import NO_SUCH_GROUP
from harness.cluster.questions import retry
from harness.common.errors import EnvironmentFailure
from harness.results.wording import duration, plural, printable
from harness.settings.tags import longest_prefix, prefix_of, tag_of
from harness.wire.protocol import Target, WireError

WITHOUT_MEMBERS = ("Empty", NO_SUCH_GROUP)
NON_EMPTY_GROUP = 68


@dataclass(frozen=True)
class LeftGroup:
    """A group, and how many members it has; None: it has some, and nobody says how many."""

    name: str
    members: int | None


@dataclass(frozen=True)
class IdleTime:
    """For how long nobody must have written. `words`: as the user wrote it."""

    seconds: float
    words: str


@dataclass(frozen=True)
class Leftovers:
    """What there is of one tag."""

    tag: str
    topics: tuple[str, ...]
    groups: tuple[LeftGroup, ...]
    written_ms: int | None = None  # when the last record was written; None: there is no record
    unknown: str | None = None  # why one cannot say whether it is in use

    def reason_to_keep(self, now_ms: float, idle: IdleTime, *, named: bool = False) -> str | None:
        """Why it is not to be removed; None: it is idle. `named`: by the user, who knows that no run is starting."""
        if self.unknown is not None:
            return f"left alone: {self.unknown}"
        prefix = self.tag.rpartition("-")[0]
        for name in (*self.topics, *(group.name for group in self.groups)):
            other = longest_prefix(name) or prefix
            if other != prefix:
                return (
                    f"left alone: {printable(name)} may be of a run with the prefix {other}; if it is yours, "
                    f"clean it with --set prefix={other}"
                )
        for group in self.groups:
            if group.members != 0:
                how_many = "members" if group.members is None else plural(group.members, "member")
                return f"still in use: the group {printable(group.name)} has {how_many}"
        if self.topics and self.written_ms is None and not named:
            return "left alone: a run may only be starting; if none is, name this tag"
        if self.written_ms is not None and now_ms - self.written_ms < idle.seconds * 1000:
            return f"less than --idle {idle.words}"
        return None

    def age(self, now_ms: float) -> str:
        """How long ago the last record was written; the brokers' clocks may be ahead of ours."""
        return duration(max(0.0, now_ms - (self.written_ms or 0)) / 1000)


@dataclass(frozen=True)
class RemovalReport:
    """What went, and in a sentence each what did not."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    failures: tuple[str, ...]


def find_leftovers(
    brokers: Mapping[int, Target], prefix: str, tags: Collection[str] | None = None
) -> list[Leftovers]:
    """What runs with that prefix have on a cluster, by tag; `tags`: of these alone. Raises `EnvironmentFailure`."""
    view = retry(partial(ask_any, brokers, _everything), "the cluster's topics")
    states = retry(lambda: _groups(brokers), "the cluster's groups")
    its_topics, its_groups = _by_tag({*view.topics, *view.refused}, prefix), _by_tag(states, prefix)
    wanted = sorted(its_topics.keys() | its_groups.keys())
    return [
        one
        for tag in wanted
        if tags is None or tag in tags
        for one in _looked_at(
            brokers, tag, its_topics.get(tag, ()), {g: states[g] for g in its_groups.get(tag, ())}
        )
    ]


def remove_leftovers(brokers: Mapping[int, Target], left: Leftovers) -> RemovalReport:
    """Remove its groups, then its topics: a group that has got a member meanwhile keeps them all."""
    prefix = prefix_of(left.tag)
    gone: dict[str, list[str]] = {"topics": [], "groups": []}
    failures: list[str] = []

    def tried(kind: str, name: str, act: Callable[[], None]) -> None:
        try:
            retry_unless_forbidden(act, "Delete", name, prefix)
        except _InUse:
            raise
        except EnvironmentFailure as failure:
            failures.append(f"{printable(name)} is left: {failure}")
        else:
            gone[kind].append(name)

    try:
        for group in left.groups:
            tried("groups", group.name, partial(_delete_group, brokers, group.name))
        for topic in left.topics:
            delete = partial(topics.delete_topics, topics=[topic], timeout_s=CLEAN_UP_TIMEOUT_S)
            tried("topics", topic, partial(ask_any, brokers, delete))
    except _InUse as error:
        failures.append(str(error))
    return RemovalReport(tuple(gone["topics"]), tuple(gone["groups"]), tuple(failures))


class _InUse(EnvironmentFailure):
    """Somebody has begun to use what was to be removed."""


def _everything(at: Target) -> admin.BrokerView:
    return admin.fetch_view(at, ANSWER_TIMEOUT_S)


def _groups(brokers: Mapping[int, Target]) -> dict[str, str]:
    """All groups with their states: each broker knows those that it coordinates."""
    states: dict[str, str] = {}
    for told in admin.ask_all(brokers, lambda at: group_members.list_groups(at, ANSWER_TIMEOUT_S)).values():
        if isinstance(told, WireError):
            raise told
        states |= told
    return states


def _by_tag(names: Iterable[str], prefix: str) -> dict[str, list[str]]:
    by_tag: dict[str, list[str]] = {}
    for name in sorted(names):
        if tag := tag_of(name, prefix):
            by_tag.setdefault(tag, []).append(name)
    return by_tag


def _looked_at(
    brokers: Mapping[int, Target], tag: str, names: Sequence[str], states: Mapping[str, str]
) -> list[Leftovers]:
    """What there is of a tag; nothing, if its run has removed it meanwhile."""
    prefix = prefix_of(tag)
    groups = tuple(
        LeftGroup(group, 0 if state in WITHOUT_MEMBERS else None) for group, state in states.items()
    )
    try:
        # A broker lists the groups that the user may see, and does not say that it leaves others out.
        retry_unless_forbidden(
            partial(ask_any, brokers, partial(_coordinated, group=tag)), "Describe", tag, prefix
        )
        groups = tuple(
            one
            if one.members == 0
            else retry_unless_forbidden(
                partial(_with_members, brokers, one.name), "Describe", one.name, prefix
            )
            for one in groups
        )
        there, written_ms = retry_unless_forbidden(partial(_written, brokers, names), "Describe", tag, prefix)
    except EnvironmentFailure as failure:
        return [Leftovers(tag, tuple(names), groups, unknown=str(failure))]
    return [Leftovers(tag, there, groups, written_ms)] if there or groups else []


def _coordinated(at: Target, group: str) -> int:
    return admin.find_coordinator(at, group, admin.GROUP, ANSWER_TIMEOUT_S)


def _coordinator(brokers: Mapping[int, Target], group: str) -> Target:
    broker = ask_any(brokers, partial(_coordinated, group=group))
    return _broker(brokers, broker, f"coordinates the group {group}")


def _broker(brokers: Mapping[int, Target], broker: int, what: str) -> Target:
    """Where that broker listens. Raises `WireError` while there is none, or it came after we had connected."""
    if broker == NO_BROKER or broker not in brokers:
        raise WireError(f"no broker that we know of {what}")
    return brokers[broker]


def _with_members(brokers: Mapping[int, Target], group: str) -> LeftGroup:
    """A group that has members, by its state; a protocol that we do not ask in has them uncounted."""
    state, members = group_members.describe_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    return LeftGroup(group, None if state == NO_SUCH_GROUP else len(members))


def _written(brokers: Mapping[int, Target], names: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """Those of the topics that are still there, and when the last record was written to any of them."""
    view = ask_any(brokers, lambda at: admin.fetch_view(at, ANSWER_TIMEOUT_S, names))
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for name in names:
        if view.refused.get(name, topics.UNKNOWN_TOPIC) != topics.UNKNOWN_TOPIC:
            raise RequestRefused(f"describing the topic {name}", view.refused[name])
        for number, partition in view.topics.get(name, {}).items():
            by_leader.setdefault(partition.leader, []).append((name, number))
    newest = -1
    for leader, places in by_leader.items():
        topic, number = places[0]
        at = _broker(brokers, leader, f"leads {topic}/{number}")
        told = admin.list_offsets_and_timestamps(at, places, admin.MAX_TIMESTAMP, 0, ANSWER_TIMEOUT_S)
        newest = max(newest, *(part.timestamp for part in told.values()))
    return tuple(sorted(view.topics)), None if newest < 0 else newest


def _delete_group(brokers: Mapping[int, Target], group: str) -> None:
    try:
        topics.delete_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    except RequestRefused as error:
        if error.code == NON_EMPTY_GROUP:
            raise _InUse(
                f"the group {printable(group)} has got a member meanwhile: it is left, and so are the topics"
            ) from error
        raise
