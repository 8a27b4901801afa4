"""Why a worker says where a partition begins, and does not leave that to librdkafka.

While a transaction still holds a group's offset, a member of librdkafka whose assignment changes begins at the
beginning of a partition, not where the group stands; sometimes it waits, as it should. Once it always does, the
worker's own answer (`Worker.on_assigned`) is no longer needed, and this test fails.
"""

import pytest

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from tests.support.group_members import COMMITTED, HELD, WITHIN_S, brokers, filled, holding, member

ATTEMPTS = 8
READS_S = 10.0


def test_left_alone_librdkafka_begins_at_the_beginning(tmp_path_factory: pytest.TempPathFactory) -> None:
    with brokers(tmp_path_factory.mktemp("cluster")) as bootstrap:
        for attempt in range(ATTEMPTS):
            if _first_read(bootstrap, f"decides-{attempt}") == 0:
                return
    pytest.fail(
        f"librdkafka did not begin at the beginning in {ATTEMPTS} attempts: does it wait now, as it should?"
    )


def _first_read(bootstrap: str, group: str) -> int | None:
    """The first offset that a member reads while the group's offset is held; None if none reads anything, or the group
    does not come to share the partitions.
    """
    places = filled(bootstrap, group)
    owner = holding(bootstrap, group, places, COMMITTED, HELD)
    with member(bootstrap, group, "first", asks=False) as first:
        try:
            wait_for(lambda: first.gains > 0, "the first member to be given partitions", WITHIN_S)
            with member(bootstrap, group, "second", asks=False) as second:
                wait_for(
                    lambda: first.gains > 1 and second.gains > 0, "the partitions to be shared", WITHIN_S
                )
                wait_for(lambda: bool(first.read or second.read), "what is read too early", READS_S)
        except WaitTimeout:
            return None
        finally:
            owner.commit(WITHIN_S)
    return min(read[0] for one in (first, second) for read in one.read.values())
