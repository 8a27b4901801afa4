"""Find and remove the topics and groups that killed runs have left on an external cluster.

Their names begin with a tag. The names of a run that has not ended begin with a tag too, so only the topics and groups
of an idle tag are removed. A tag is idle if its groups have no members and its topics have no recent records. A name
that may belong to a run with another prefix is not removed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.cluster import admin, operations
from harness.cluster.admin import NO_BROKER, NO_SUCH_GROUP, RequestRefused
from harness.cluster.connecting import ANSWER_TIMEOUT_S, CLEAN_UP_TIMEOUT_S, ask_any, retry_unless_forbidden
from harness.cluster.questions import retry
from harness.common.errors import EnvironmentFailure
from harness.common.wording import duration, plural, printable
from harness.settings.kinds import longest_prefix, prefix_of, tag_of
from harness.wire.protocol import Target, WireError

WITHOUT_MEMBERS = ("Empty", NO_SUCH_GROUP)
NON_EMPTY_GROUP = 68


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
