"""Topics and groups of killed runs on a shared cluster are found by their tag, and removed if the tag is idle."""

import pytest

from fencepost import cleaning
from fencepost.cleaning import IdleTime, LeftGroup, Leftovers, find_leftovers, remove_leftovers
from harness.settings.kinds import longest_prefix, new_tag, prefix_of, tag_of
from harness.wire.protocol import WireError
from tests.support.guest_cluster import GuestCluster

TAG, OTHER = "fencepost-3fa91c", "fencepost-0b1c2d"
NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> GuestCluster:
    """A shared cluster with the topics and the group of one killed run."""
    shared = GuestCluster({f"{TAG}-in": NOW_MS - 60 * MINUTE_MS, f"{TAG}-out": -1}, {f"{TAG}-shop": 0})
    shared.install(monkeypatch)
    return shared


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
def test_a_name_has_a_tag_only_if_a_run_may_have_made_it(name: str, tag: str | None) -> None:
    assert tag_of(name, "fencepost") == tag


def test_a_new_tag_is_recognised_and_a_dot_in_its_prefix_is_no_wildcard() -> None:
    tag = new_tag("team.x")
    assert tag_of(f"{tag}-in", "team.x") == tag
    assert tag_of(tag.replace(".", "X"), "team.x") is None


def test_the_longest_possible_prefix_counts() -> None:
    assert longest_prefix(f"{TAG}-in") == "fencepost"
    assert longest_prefix(f"{TAG}-0b1c2d-in") == TAG
    assert longest_prefix("strangers") is None


def test_names_that_no_run_made_are_neither_found_nor_removed(cluster: GuestCluster) -> None:
    other_names = ("fencepost-mine", f"{TAG}7-x", f"team.{TAG}-in", "strangers")
    cluster.last_write_ms |= dict.fromkeys(other_names, NOW_MS)
    cluster.members |= dict.fromkeys(other_names, 0)
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost")
    assert leftovers == Leftovers(
        TAG, (f"{TAG}-in", f"{TAG}-out"), (LeftGroup(f"{TAG}-shop", 0),), NOW_MS - 60 * MINUTE_MS
    )
    assert [leftovers.tag for leftovers in find_leftovers(cluster.brokers, "team.fencepost")] == [
        f"team.{TAG}"
    ]
    remove_leftovers(cluster.brokers, leftovers)
    assert cluster.last_write_ms.keys() == set(other_names)
    assert cluster.members.keys() == set(other_names)


def test_each_tag_is_listed_alone_and_a_listing_can_be_limited_to_tags(cluster: GuestCluster) -> None:
    cluster.members[f"{OTHER}-shop"] = 2
    assert [leftovers.tag for leftovers in find_leftovers(cluster.brokers, "fencepost")] == [OTHER, TAG]
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost", [OTHER])
    assert (leftovers.topics, leftovers.groups, leftovers.written_ms) == (
        (),
        (LeftGroup(f"{OTHER}-shop", 2),),
        None,
    )


def reason_to_keep(leftovers: Leftovers) -> str | None:
    return leftovers.reason_to_keep(NOW_MS, IdleTime(600, "10m"))


LEFT = Leftovers(TAG, (f"{TAG}-in",), (LeftGroup(f"{TAG}-shop", 0),), NOW_MS - 11 * MINUTE_MS)


def test_a_tag_with_old_records_and_without_members_is_idle() -> None:
    assert reason_to_keep(LEFT) is None
    assert reason_to_keep(Leftovers(TAG, (), LEFT.groups)) is None


def test_topics_without_records_are_kept_unless_the_user_names_the_tag() -> None:
    without_records = Leftovers(TAG, (f"{TAG}-in",), ())
    assert "a run with this tag may be starting" in str(reason_to_keep(without_records))
    assert without_records.reason_to_keep(NOW_MS, IdleTime(600, "10m"), named=True) is None


def test_a_tag_is_kept_if_the_user_may_not_see_its_groups(cluster: GuestCluster) -> None:
    cluster.members[f"{TAG}-shop"] = 3
    cluster.hidden = True
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost")
    assert leftovers.groups == ()
    assert "--operation Delete --group fencepost- --resource-pattern-type prefixed" in str(leftovers.unknown)
    assert reason_to_keep(leftovers) is not None


def test_topics_that_a_run_kept_on_purpose_have_another_prefix(cluster: GuestCluster) -> None:
    tag = new_tag("fencepost", keep_topics=True)
    cluster.last_write_ms = {f"{tag}-in": NOW_MS - 60 * MINUTE_MS}
    cluster.members = {}
    assert find_leftovers(cluster.brokers, "fencepost") == []
    assert [leftovers.tag for leftovers in find_leftovers(cluster.brokers, "fencepost-kept")] == [tag]
    assert prefix_of(tag) == prefix_of(new_tag("fencepost")) == "fencepost"


@pytest.mark.parametrize("written_ms", [NOW_MS - 40_000, NOW_MS - 10 * MINUTE_MS + 1, NOW_MS + MINUTE_MS])
def test_a_tag_with_a_recent_record_is_kept(written_ms: int) -> None:
    assert reason_to_keep(Leftovers(TAG, LEFT.topics, LEFT.groups, written_ms)) == "less than --idle 10m"


@pytest.mark.parametrize(("members", "words"), [(1, "1 member"), (3, "3 members"), (None, "members")])
def test_a_tag_whose_group_has_members_is_kept(members: int | None, words: str) -> None:
    leftovers = Leftovers(TAG, LEFT.topics, (*LEFT.groups, LeftGroup(f"{TAG}-b", members)), LEFT.written_ms)
    assert reason_to_keep(leftovers) == f"still in use: the group {TAG}-b has {words}"


def test_a_tag_with_a_name_that_may_have_a_longer_prefix_is_kept() -> None:
    leftovers = Leftovers(TAG, (*LEFT.topics, f"{TAG}-0b1c2d-in"), (), LEFT.written_ms)
    assert f"--set prefix={TAG}" in str(reason_to_keep(leftovers))


def test_a_group_of_an_unknown_protocol_counts_as_in_use(cluster: GuestCluster) -> None:
    cluster.members[f"{TAG}-shared"] = 2
    cluster.of_unknown_protocol = {f"{TAG}-shared"}
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost")
    assert leftovers.groups == (LeftGroup(f"{TAG}-shared", None), LeftGroup(f"{TAG}-shop", 0))


def send_each_request_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cluster.connecting.CLEAN_UP_TIMEOUT_S", 0.0)
    monkeypatch.setattr(cleaning, "retry", lambda question, awaited: question())


def test_a_tag_is_kept_if_its_newest_record_cannot_be_read(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_each_request_once(monkeypatch)
    cluster.last_write_ms[f"{OTHER}-in"] = 0
    cluster.leaderless = {f"{TAG}-in"}
    readable, leaderless = find_leftovers(cluster.brokers, "fencepost")
    assert reason_to_keep(readable) is None
    assert f"leads {TAG}-in/0" in str(leaderless.unknown)
    assert str(leaderless.unknown) in str(reason_to_keep(leaderless))


def test_a_broker_that_does_not_list_its_groups_is_an_error(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_each_request_once(monkeypatch)
    cluster.not_listing = {2}
    with pytest.raises(WireError, match="no answer from port 2"):
        find_leftovers(cluster.brokers, "fencepost")


def test_a_tag_that_its_run_has_removed_meanwhile_is_not_listed(
    cluster: GuestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.members.clear()
    view_before = cluster.fetch_view(0)
    cluster.last_write_ms.clear()
    fetch_view = cluster.fetch_view
    monkeypatch.setattr(
        "harness.cluster.admin.fetch_view",
        lambda at, timeout_s, topics=None: (
            view_before if topics is None else fetch_view(at, timeout_s, topics)
        ),
    )
    assert find_leftovers(cluster.brokers, "fencepost") == []


def test_names_that_acls_do_not_protect_are_still_removed(cluster: GuestCluster) -> None:
    cluster.forbidden = {f"{TAG}-in", f"{TAG}-shop"}
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost")
    removed = remove_leftovers(cluster.brokers, leftovers)
    assert (removed.topics, removed.groups) == ((f"{TAG}-out",), ())
    assert cluster.last_write_ms.keys() == {f"{TAG}-in"}
    group, topic = removed.failures
    assert "--operation Delete --group fencepost- --resource-pattern-type prefixed" in group
    assert "--topic fencepost- --resource-pattern-type prefixed" in topic


def test_topics_are_kept_if_a_group_has_a_new_member_before_its_deletion(cluster: GuestCluster) -> None:
    cluster.joining = {f"{TAG}-shop"}
    (leftovers,) = find_leftovers(cluster.brokers, "fencepost")
    removed = remove_leftovers(cluster.brokers, leftovers)
    assert (removed.topics, removed.groups) == ((), ())
    assert len(removed.failures) == 1
    assert cluster.last_write_ms.keys() == {f"{TAG}-in", f"{TAG}-out"}
