"""The records of the two internal topics, in every version that brokers have written."""

import pytest
from witness_logs import commit_key, commit_value, state_key, state_value

from harness.witness import internal_topics
from harness.witness.internal_topics import STATES, OffsetCommit, TransactionState, UndecodableField

STATE_NAMES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]


@pytest.mark.parametrize("version", range(5))
def test_an_offset_commit_is_read_in_every_version(version: int) -> None:
    commit = internal_topics.decode_commit(commit_key("g", "in", 3), commit_value(version, 42, "shop-1.0:8"))
    assert commit == OffsetCommit("g", "in", 3, 42, "shop-1.0:8", 77)


def test_an_offset_commit_without_a_value_is_a_tombstone() -> None:
    assert internal_topics.decode_commit(commit_key("g", "in", 3, version=0), None) == OffsetCommit(
        "g", "in", 3
    )


@pytest.mark.parametrize("version", [2, 3, 8, 16])
def test_records_of_a_group_other_than_offset_commits_are_skipped(version: int) -> None:
    assert internal_topics.decode_commit(commit_key("g", "in", 3, version=version), b"anything") is None


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("status", "name"), list(enumerate(STATE_NAMES)))
def test_a_transaction_is_read_in_every_version_and_state(version: int, status: int, name: str) -> None:
    state = internal_topics.decode_state(state_key("shop-1"), state_value(version, status))
    partitions = (("out", 0), ("out", 2))
    assert state == TransactionState(
        "shop-1",
        name,
        9,
        4,
        60_000,
        partitions,
        start_ms=10,
        update_ms=20,
        client_version=2 if version else None,
    )


@pytest.mark.parametrize("version", [0, 1])
def test_null_partitions_are_read_as_no_partitions(version: int) -> None:
    state = internal_topics.decode_state(state_key("shop-1"), state_value(version, 4, topic=None))
    assert state is not None
    assert (state.partitions, state.update_ms) == ((), 20)


def test_a_transaction_without_a_value_is_a_tombstone() -> None:
    assert internal_topics.decode_state(state_key("shop-1"), None) == TransactionState("shop-1", "Tombstone")


@pytest.mark.parametrize("missing_bytes", range(1, 30))
def test_a_truncated_value_is_an_error(missing_bytes: int) -> None:
    with pytest.raises(UndecodableField):
        internal_topics.decode_commit(
            commit_key("g", "in", 3), commit_value(4, 42, "shop-1.0:8")[:-missing_bytes]
        )
    with pytest.raises(UndecodableField):
        internal_topics.decode_state(state_key("shop-1"), state_value(1, 1)[:-missing_bytes])


def test_an_unknown_version_or_state_is_an_error() -> None:
    with pytest.raises(UndecodableField, match="version 5"):
        internal_topics.decode_commit(commit_key("g", "in", 3), commit_value(5, 42, "m"))
    with pytest.raises(UndecodableField, match="version 2"):
        internal_topics.decode_state(state_key("shop-1"), state_value(2, 1))
    with pytest.raises(UndecodableField, match="no state"):
        internal_topics.decode_state(state_key("shop-1"), state_value(1, max(STATES) + 1))
