"""Missing markers."""

from cases import case, plain

from tests.support.histories import History
from tests.support.stored_tables import OFFSETS

# unmarked-partition


@case(unmarked_partition=1, hanging_transaction=1, broken=("did not come to the end of y/0",))
def a_partition_without_the_marker_of_a_completed_transaction_is_unmarked(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.append("y", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "xy", "Abort")


def transaction(h: History, *markers: str, how: str = "Abort", writes: bool = True) -> int:
    """Log a transaction of producer 7 in x with these markers, and return the offset of its record."""
    h.tick()
    h.log_state(7, "Ongoing", "x")
    offset = h.append("x", None, 7) if writes else -1
    h.tick()
    h.log_state(7, f"Prepare{how}", "x")
    h.tick()
    for marker in markers:
        h.append_marker("x", 7, marker)
    h.log_state(7, f"Complete{how}")
    return offset


def unmarked(record: object, completion: object, **counts: int) -> dict[str, object]:
    """Return the expected example: the record and the completion in the transaction log, by their offsets."""
    at = {"record": record, "completion": completion}
    parts = {name: None if offset is None else {"offset": offset} for name, offset in at.items()}
    return {"unmarked-partition": parts | {"place": {"topic": "x", "partition": 0}} | counts}


@case(unmarked_partition=1, examples=unmarked(2, 5, markers=1, completions=2))
def a_marker_of_the_next_transaction_does_not_make_up_for_a_missing_one(h: History) -> None:
    plain(h)
    transaction(h)
    transaction(h, "abort")


@case(unmarked_partition=1, examples=unmarked(4, 8, markers=3, completions=4))
def the_transaction_without_a_marker_is_named_and_not_those_around_it(h: History) -> None:
    plain(h)
    transaction(h, "abort")
    transaction(h)
    transaction(h, "abort")
    transaction(h, "abort")


@case(
    unmarked_partition=1,
    hanging_transaction=1,
    broken=("did not come to the end of x/0",),
    examples=unmarked(4, 8, markers=1, completions=2),
)
def the_last_transaction_without_a_marker_is_named(h: History) -> None:
    plain(h)
    transaction(h, "abort")
    transaction(h)


@case(unmarked_partition=1, examples=unmarked(5, 8, markers=3, completions=4))
def a_marker_written_twice_belongs_to_one_transaction(h: History) -> None:
    plain(h)
    transaction(h, "abort", "abort")
    transaction(h)
    transaction(h)
    transaction(h, "abort")


@case(unmarked_partition=1, examples=unmarked(None, 5, markers=1, completions=2))
def a_transaction_that_wrote_nothing_is_named_without_a_record(h: History) -> None:
    plain(h)
    transaction(h, writes=False)
    transaction(h, "abort")


@case(unmarked_partition=1, examples=unmarked(None, None, markers=2, completions=3))
def if_a_marker_is_earlier_than_its_transaction_the_partition_alone_is_named(h: History) -> None:
    plain(h)
    transaction(h, "abort")
    transaction(h)
    transaction(h, "abort")
    h.entries["x"][-1]["ms"] -= 6


@case()
def a_marker_that_was_written_twice_is_none_too_many(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "x", "Abort")


@case()
def a_partition_that_was_named_and_not_written_needs_no_marker(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "xy", "Abort")


@case(hanging_transaction=1, broken=("did not come to the end of x/0",))
def a_record_behind_its_own_marker_hangs_and_is_not_unmarked(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "x", "Abort")
    h.append("x", None, 7)


@case()
def a_marker_may_be_gone_from_a_compacted_partition(h: History) -> None:
    plain(h)
    h.append(OFFSETS, None, 7)
    h.append_marker(OFFSETS, 7, "abort")
    for _ in range(2):
        h.log_transaction(7, [OFFSETS], "Abort")


@case()
def a_transaction_that_is_only_prepared_is_not_unmarked(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "x", "Abort")
    h.log_state(7, "Ongoing", "x")
    h.log_state(7, "PrepareAbort", "x")


@case(broken=("the log of x/0 begins at offset 1",))
def a_log_without_its_beginning_may_lack_a_marker(h: History) -> None:
    h.feed(1)
    h.append("x", None, 7)
    h.log_transaction(7, "x", "Abort")
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "x", "Abort")
    h.transact(0)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == h.tp["x"] else row)
