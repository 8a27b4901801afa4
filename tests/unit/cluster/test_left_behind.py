"""What killed runs have left on a cluster that others use: found by its tag alone, and removed if nobody uses it."""

import pytest

from harness.cluster import left_behind
from harness.cluster.left_behind import IdleTime, LeftGroup, Leftovers, find_leftovers, remove_leftovers
from harness.settings.tags import longest_prefix, new_tag, prefix_of, tag_of
from harness.wire.protocol import WireError
from tests.support.guest_cluster import GuestCluster

TAG, OTHER = "fencepost-3fa91c", "fencepost-0b1c2d"
NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> GuestCluster:
    """With what one killed run has left."""
    there = GuestCluster({f"{TAG}-in": NOW_MS - 60 * MINUTE_MS, f"{TAG}-out": -1}, {f"{TAG}-shop": 0})
    there.install(monkeypatch)
    return there


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        (TAG, TAG),
        (f"{TAG}-in", TAG),
        (f"{TAG}-a\nb", TAG),
        (f"{TAG}7-in", None),
        (f"{TAG}.in", None),
        (f"{TAG}\n", None),
        ("fencepost-mine", None),
        ("fencepost-3FA91C-in", None),
        ("fencepost-3fa91-in", None),
        (f"team.{TAG}-in", None),
        ("fencepost", None),
        ("", None),
    ],
)
def test_a_name_has_a_tag_if_a_run_may_have_made_it(name: str, tag: str | None) -> None:
    assert tag_of(name, "fencepost") == tag


def test_a_tag_is_read_as_it_is_made_and_its_prefix_is_no_pattern() -> None:
    tag = new_tag("team.x")
    assert tag_of(f"{tag}-in", "team.x") == tag
    assert tag_of(tag.replace(".", "X"), "team.x") is None


def test_of_two_readings_the_longest_prefix_counts() -> None:
    assert longest_prefix(f"{TAG}-in") == "fencepost"
    assert longest_prefix(f"{TAG}-0b1c2d-in") == TAG
    assert longest_prefix("strangers") is None


def test_what_is_of_no_run_is_not_found(cluster: GuestCluster) -> None:
    others = ("fencepost-mine", f"{TAG}7-x", f"team.{TAG}-in", "strangers")
    cluster.written |= dict.fromkeys(others, NOW_MS)
    cluster.members |= dict.fromkeys(others, 0)
    (left,) = find_leftovers(cluster.brokers, "fencepost")
    assert left == Leftovers(
        TAG, (f"{TAG}-in", f"{TAG}-out"), (LeftGroup(f"{TAG}-shop", 0),), NOW_MS - 60 * MINUTE_MS
    )
    assert [one.tag for one in find_leftovers(cluster.brokers, "team.fencepost")] == [f"team.{TAG}"]
    remove_leftovers(cluster.brokers, left)
    assert cluster.written.keys() == set(others)
    assert cluster.members.keys() == set(others)


def test_each_tag_is_for_itself_and_one_can_ask_for_some(cluster: GuestCluster) -> None:
    cluster.members[f"{OTHER}-shop"] = 2
    assert [one.tag for one in find_leftovers(cluster.brokers, "fencepost")] == [OTHER, TAG]
    (left,) = find_leftovers(cluster.brokers, "fencepost", [OTHER])
    assert (left.topics, left.groups, left.written_ms) == ((), (LeftGroup(f"{OTHER}-shop", 2),), None)


def kept(left: Leftovers) -> str | None:
    return left.reason_to_keep(NOW_MS, IdleTime(600, "10m"))


LEFT = Leftovers(TAG, (f"{TAG}-in",), (LeftGroup(f"{TAG}-shop", 0),), NOW_MS - 11 * MINUTE_MS)


def test_what_is_old_and_without_members_is_idle() -> None:
    assert kept(LEFT) is None
    assert kept(Leftovers(TAG, (), LEFT.groups)) is None


def test_topics_without_records_are_kept_unless_the_tag_is_named() -> None:
    blank = Leftovers(TAG, (f"{TAG}-in",), ())
    assert "a run with this tag may be starting" in str(kept(blank))
    assert blank.reason_to_keep(NOW_MS, IdleTime(600, "10m"), named=True) is None


def test_groups_that_the_user_may_not_see_keep_all(cluster: GuestCluster) -> None:
    cluster.members[f"{TAG}-shop"] = 3
    cluster.hidden = True
    (left,) = find_leftovers(cluster.brokers, "fencepost")
    assert left.groups == ()
    assert "--operation Delete --group fencepost- --resource-pattern-type prefixed" in str(left.unknown)
    assert kept(left) is not None


def test_what_a_run_left_on_purpose_is_of_another_prefix(cluster: GuestCluster) -> None:
    tag = new_tag("fencepost", keep_topics=True)
    cluster.written = {f"{tag}-in": NOW_MS - 60 * MINUTE_MS}
    cluster.members = {}
    assert find_leftovers(cluster.brokers, "fencepost") == []
    assert [one.tag for one in find_leftovers(cluster.brokers, "fencepost-kept")] == [tag]
    assert prefix_of(tag) == prefix_of(new_tag("fencepost")) == "fencepost"


@pytest.mark.parametrize("written_ms", [NOW_MS - 40_000, NOW_MS - 10 * MINUTE_MS + 1, NOW_MS + MINUTE_MS])
def test_what_was_written_a_short_time_ago_is_kept(written_ms: int) -> None:
    assert kept(Leftovers(TAG, LEFT.topics, LEFT.groups, written_ms)) == "less than --idle 10m"


@pytest.mark.parametrize(("members", "told"), [(1, "1 member"), (3, "3 members"), (None, "members")])
def test_what_has_members_is_kept_however_old_it_is(members: int | None, told: str) -> None:
    left = Leftovers(TAG, LEFT.topics, (*LEFT.groups, LeftGroup(f"{TAG}-b", members)), LEFT.written_ms)
    assert kept(left) == f"still in use: the group {TAG}-b has {told}"


def test_what_may_be_of_another_prefix_is_kept_with_all_of_its_tag() -> None:
    left = Leftovers(TAG, (*LEFT.topics, f"{TAG}-0b1c2d-in"), (), LEFT.written_ms)
    assert f"--set prefix={TAG}" in str(kept(left))


def test_a_group_of_a_protocol_that_nobody_asks_in_has_members(cluster: GuestCluster) -> None:
    cluster.members[f"{TAG}-shared"] = 2
    cluster.foreign = {f"{TAG}-shared"}
    (left,) = find_leftovers(cluster.brokers, "fencepost")
    assert left.groups == (LeftGroup(f"{TAG}-shared", None), LeftGroup(f"{TAG}-shop", 0))


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is asked once."""
    monkeypatch.setattr("harness.cluster.connecting.CLEAN_UP_TIMEOUT_S", 0.0)
    monkeypatch.setattr(left_behind, "retry", lambda ask, what: ask())


def test_what_cannot_be_asked_is_kept_and_said(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    cluster.written[f"{OTHER}-in"] = 0
    cluster.leaderless = {f"{TAG}-in"}
    well, left = find_leftovers(cluster.brokers, "fencepost")
    assert kept(well) is None
    assert f"leads {TAG}-in/0" in str(left.unknown)
    assert str(left.unknown) in str(kept(left))


def test_a_broker_that_does_not_list_its_groups_ends_it(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    cluster.silent = {2}
    with pytest.raises(WireError, match="no answer from port 2"):
        find_leftovers(cluster.brokers, "fencepost")


def test_what_a_run_has_removed_meanwhile_is_not_told(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.members.clear()
    named = cluster.fetch_view(0)
    cluster.written.clear()
    real = cluster.fetch_view
    monkeypatch.setattr(
        "harness.cluster.admin.fetch_view",
        lambda at, timeout_s, topics=None: named if topics is None else real(at, timeout_s, topics),
    )
    assert find_leftovers(cluster.brokers, "fencepost") == []


def test_all_else_is_removed_where_acls_forbid_something(cluster: GuestCluster) -> None:
    cluster.forbidden = {f"{TAG}-in", f"{TAG}-shop"}
    (left,) = find_leftovers(cluster.brokers, "fencepost")
    removed = remove_leftovers(cluster.brokers, left)
    assert (removed.topics, removed.groups) == ((f"{TAG}-out",), ())
    assert cluster.written.keys() == {f"{TAG}-in"}
    group, topic = removed.failures
    assert "--operation Delete --group fencepost- --resource-pattern-type prefixed" in group
    assert "--topic fencepost- --resource-pattern-type prefixed" in topic


def test_a_group_that_gets_a_member_before_it_is_deleted_keeps_the_topics(cluster: GuestCluster) -> None:
    cluster.joining = {f"{TAG}-shop"}
    (left,) = find_leftovers(cluster.brokers, "fencepost")
    removed = remove_leftovers(cluster.brokers, left)
    assert (removed.topics, removed.groups) == ((), ())
    assert len(removed.failures) == 1
    assert cluster.written.keys() == {f"{TAG}-in", f"{TAG}-out"}
