"""Find and remove what killed runs have left on an external cluster.

A killed run does not remove its topics and groups. Their names have the form of a tag, but so have those of a run that
still goes on. So only idle tags are removed: those without group members and without recent records. A name that may
belong to a run with another prefix is left alone.
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
    """A group and the number of its members. None: it has members, but their number is not known."""

    name: str
    members: int | None


@dataclass(frozen=True)
class IdleTime:
    """How old the newest record of an idle tag must be. `words`: as the user wrote it (`45m`)."""

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

        `named`: the user named this tag, and so knows that no run with it is starting.
        """
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
            return "left alone: a run with this tag may be starting; if none is, name the tag to delete it"
        if self.written_ms is not None and now_ms - self.written_ms < idle.seconds * 1000:
            return f"less than --idle {idle.words}"
        return None

    def age(self, now_ms: float) -> str:
        """Return how long ago the newest record was written. 0 if its timestamp is in the future."""
        return duration(max(0.0, now_ms - (self.written_ms or 0)) / 1000)


@dataclass(frozen=True)
class RemovalReport:
    """What was removed, and one sentence for each failure."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    failures: tuple[str, ...]


def find_leftovers(
    brokers: Mapping[int, Target], prefix: str, tags: Collection[str] | None = None
) -> list[Leftovers]:
    """Find the topics and groups of runs with this prefix. `tags` limits it to these tags.

    Raises `EnvironmentFailure`.
    """
    view = retry(partial(ask_any, brokers, _fetch_all_topics), "the cluster's topics")
    states = retry(lambda: _groups(brokers), "the cluster's groups")
    its_topics, its_groups = _by_tag({*view.topics, *view.refused}, prefix), _by_tag(states, prefix)
    wanted = sorted(its_topics.keys() | its_groups.keys())
    return [
        leftovers
        for tag in wanted
        if tags is None or tag in tags
        for leftovers in _inspect(
            brokers, tag, its_topics.get(tag, ()), {g: states[g] for g in its_groups.get(tag, ())}
        )
    ]


def remove_leftovers(brokers: Mapping[int, Target], left: Leftovers) -> RemovalReport:
    """Remove the groups of a tag, then its topics. Stop if a group has a new member."""
    prefix = prefix_of(left.tag)
    gone: dict[str, list[str]] = {"topics": [], "groups": []}
    failures: list[str] = []

    def try_to_remove(kind: str, name: str, act: Callable[[], None]) -> None:
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
            try_to_remove("groups", group.name, partial(_delete_group, brokers, group.name))
        for topic in left.topics:
            delete = partial(topics.delete_topics, topics=[topic], timeout_s=CLEAN_UP_TIMEOUT_S)
            try_to_remove("topics", topic, partial(ask_any, brokers, delete))
    except _InUse as error:
        failures.append(str(error))
    return RemovalReport(tuple(gone["topics"]), tuple(gone["groups"]), tuple(failures))


class _InUse(EnvironmentFailure):
    """A group that was to be removed has a new member."""


def _fetch_all_topics(broker: Target) -> admin.BrokerView:
    return admin.fetch_view(broker, ANSWER_TIMEOUT_S)


def _groups(brokers: Mapping[int, Target]) -> dict[str, str]:
    """Return the state of every group. Each broker lists only the groups that it coordinates."""
    states: dict[str, str] = {}
    for answer in admin.ask_all(
        brokers, lambda broker: group_members.list_groups(broker, ANSWER_TIMEOUT_S)
    ).values():
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
    """Inspect one tag. Empty if its run has removed everything in the meantime."""
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
    """Return a broker's address. Raises `WireError` if it is not among the brokers that we connected to."""
    if broker == NO_BROKER or broker not in brokers:
        raise WireError(f"no known broker {role}")
    return brokers[broker]


def _count_members(brokers: Mapping[int, Target], group: str) -> LeftGroup:
    """Count the members of a group. None if its protocol is not known here."""
    state, members = group_members.describe_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    return LeftGroup(group, None if state == NO_SUCH_GROUP else len(members))


def _find_newest_record(
    brokers: Mapping[int, Target], names: Sequence[str]
) -> tuple[tuple[str, ...], int | None]:
    """Return those topics that still exist, and the newest timestamp in them. None if they have no records."""
    view = ask_any(brokers, lambda broker: admin.fetch_view(broker, ANSWER_TIMEOUT_S, names))
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for name in names:
        if view.refused.get(name, topics.UNKNOWN_TOPIC) != topics.UNKNOWN_TOPIC:
            raise RequestRefused(f"describing the topic {name}", view.refused[name])
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
        topics.delete_group(_coordinator(brokers, group), group, ANSWER_TIMEOUT_S)
    except RequestRefused as error:
        if error.code == NON_EMPTY_GROUP:
            raise _InUse(
                f"the group {printable(group)} has a new member, so it and the topics are left alone"
            ) from error
        raise
