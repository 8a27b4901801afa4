"""Where a member begins a partition if its offset is part of an open transaction and the group rebalances again.

The broker answers UNSTABLE_OFFSET_COMMIT until the transaction has ended (KIP-447). Even if the assignment of a member
changes while it waits, the member must begin at the committed offset. tests/chaos/test_left_to_librdkafka.py tests
where librdkafka begins if the worker does not set the offset.
"""

from collections.abc import Iterator

import pytest

from harness.clients.interface import GroupSettings
from harness.common.waiting import wait_for
from tests.support.group_members import (
    COMMITTED_OFFSET,
    OPEN_OFFSET,
    TIMEOUT_S,
    count_members,
    create_filled_topic,
    have_read_all,
    hold_last_offset_open,
    start_brokers,
    start_member,
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_brokers(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


def test_a_partition_begins_at_its_stable_offset_after_a_second_rebalance(bootstrap: str) -> None:
    group = "asks"
    partitions = create_filled_topic(bootstrap, group)
    with (
        hold_last_offset_open(bootstrap, group, partitions, COMMITTED_OFFSET, OPEN_OFFSET) as owner,
        start_member(bootstrap, group, "first", fetches_committed=True) as first,
    ):
        wait_for(lambda: first.assignments > 0, "the first member to get partitions", TIMEOUT_S)
        with start_member(bootstrap, group, "second", fetches_committed=True) as second:
            # In its callback the first member waits for the transaction, and the second member waits for the first.
            wait_for(lambda: count_members(bootstrap, group) == 2, "the second member to join", TIMEOUT_S)
            assert not first.read and not second.read
            owner.commit_transaction()
            wait_for(
                have_read_all(first, second, partitions), "every partition to be read to its end", TIMEOUT_S
            )
    first_offsets = {
        partition: read[0] for reader in (first, second) for partition, read in reader.read.items()
    }
    assert first_offsets == dict.fromkeys(partitions, OPEN_OFFSET)


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("eager", GroupSettings(assignor="eager")),
        ("cooperative", GroupSettings(assignor="cooperative")),
        ("consumer", GroupSettings(protocol="consumer")),
    ],
)
def test_a_member_of_each_kind_of_group_begins_at_the_committed_offset(
    bootstrap: str, group: str, kind: GroupSettings
) -> None:
    partitions = create_filled_topic(bootstrap, group)
    with hold_last_offset_open(bootstrap, group, partitions, COMMITTED_OFFSET) as owner:
        owner.commit_transaction()
    with (
        start_member(bootstrap, group, "first", True, kind) as first,
        start_member(bootstrap, group, "second", True, kind) as second,
    ):
        wait_for(have_read_all(first, second, partitions), "every partition to be read to its end", TIMEOUT_S)
    assert {min(reader.read[partition]) for reader in (first, second) for partition in reader.read} == {
        COMMITTED_OFFSET
    }
