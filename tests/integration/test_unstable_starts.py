"""Where a partition begins whose committed offset a transaction still holds, while the group rebalances again.

The broker answers UNSTABLE_OFFSET_COMMIT until the transaction has ended (KIP-447). A member whose assignment changes
while it asks must still begin where the group stands. What librdkafka does, left alone, is told in
tests/chaos/test_left_to_librdkafka.py.
"""

from collections.abc import Iterator

import pytest

from harness.clients.interface import GroupSettings
from harness.common.waiting import wait_for
from tests.support.group_members import (
    COMMITTED,
    HELD,
    WITHIN_S,
    all_read,
    brokers,
    filled,
    holding,
    member,
    members,
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with brokers(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


def test_a_partition_that_is_assigned_again_while_its_offset_is_unstable(bootstrap: str) -> None:
    group = "asks"
    places = filled(bootstrap, group)
    owner = holding(bootstrap, group, places, COMMITTED, HELD)
    with member(bootstrap, group, "first", asks=True) as first:
        wait_for(lambda: first.gains > 0, "the first member to be given partitions", WITHIN_S)
        with member(bootstrap, group, "second", asks=True) as second:
            # In its callback the first waits for the transaction, and the second member waits for it.
            wait_for(lambda: members(bootstrap, group) == 2, "the second member to join", WITHIN_S)
            assert not first.read and not second.read
            owner.commit(WITHIN_S)
            wait_for(all_read(first, second, places), "every partition to be read to its end", WITHIN_S)
    begun = {place: read[0] for one in (first, second) for place, read in one.read.items()}
    assert begun == dict.fromkeys(places, HELD)


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("eager", GroupSettings(assignor="eager")),
        ("cooperative", GroupSettings(assignor="cooperative")),
        ("consumer", GroupSettings(protocol="consumer")),
    ],
)
def test_a_member_of_each_kind_of_group_begins_where_it_is_told(
    bootstrap: str, group: str, kind: GroupSettings
) -> None:
    places = filled(bootstrap, group)
    holding(bootstrap, group, places, COMMITTED).commit(WITHIN_S)
    with (
        member(bootstrap, group, "first", True, kind) as first,
        member(bootstrap, group, "second", True, kind) as second,
    ):
        wait_for(all_read(first, second, places), "every partition to be read to its end", WITHIN_S)
    assert {min(one.read[place]) for one in (first, second) for place in one.read} == {COMMITTED}
