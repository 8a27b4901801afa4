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


@case(
    unmarked_partition=1,
    examples={
        "unmarked-partition": {
            "record": {"offset": 3},
            "markers": 1,
            "completions": 2,
            "last_completion": {"offset": 8, "state": "CompleteAbort"},
        }
    },
)
def a_marker_of_the_next_transaction_does_not_make_up_for_a_missing_one(h: History) -> None:
    plain(h)
    h.append("x", None, 7)
    h.log_transaction(7, "x", "Abort")
    h.append("x", None, 7)
    h.append_marker("x", 7, "abort")
    h.log_transaction(7, "x", "Abort")


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
