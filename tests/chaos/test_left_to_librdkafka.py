"""Why a worker sets the offset at which it begins a partition, and does not leave that to librdkafka.

The offset of a group may be part of an open transaction. If the assignment of a member changes in this time, librdkafka
may begin at the start of a partition, and not at the committed offset. Sometimes it waits, which is correct. When it
always waits, `Worker.on_assigned` need not return offsets, and this test fails.
"""

import pytest

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from tests.support.group_members import (
    COMMITTED_OFFSET,
    OPEN_OFFSET,
    TIMEOUT_S,
    create_filled_topic,
    hold_last_offset_open,
    start_brokers,
    start_member,
)

ATTEMPTS = 8
READS_S = 10.0


def test_librdkafka_alone_begins_at_the_start_of_a_partition(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with start_brokers(tmp_path_factory.mktemp("cluster")) as bootstrap:
        for attempt in range(ATTEMPTS):
            if _first_read(bootstrap, f"decides-{attempt}") == 0:
                return
    pytest.fail(
        f"librdkafka did not begin at the start of a partition in {ATTEMPTS} attempts: it may wait now (correct)"
    )


def _first_read(bootstrap: str, group: str) -> int | None:
    """Return the first offset that a member reads while the group's offset is part of an open transaction.

    None if no member reads anything, or if the members do not get to share the partitions.
    """
    partitions = create_filled_topic(bootstrap, group)
    with (
        hold_last_offset_open(bootstrap, group, partitions, COMMITTED_OFFSET, OPEN_OFFSET) as owner,
        start_member(bootstrap, group, "first", fetches_committed=False) as first,
    ):
        try:
            wait_for(lambda: first.assignments > 0, "the first member to get partitions", TIMEOUT_S)
            with start_member(bootstrap, group, "second", fetches_committed=False) as second:
                wait_for(
                    lambda: first.assignments > 1 and second.assignments > 0,
                    "the partitions to be shared",
                    TIMEOUT_S,
                )
                wait_for(lambda: bool(first.read or second.read), "a record to be read too early", READS_S)
        except WaitTimeout:
            return None
        finally:
            owner.commit_transaction()
    return min(read[0] for reader in (first, second) for read in reader.read.values())
