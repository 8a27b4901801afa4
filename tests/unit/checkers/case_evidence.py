"""Nothing checked is nothing known: what a table that is short or empty makes of a right history."""

from cases import case
from histories import History


def plain(h: History) -> None:
    h.feed(3)
    h.take(0)
    h.take(1, 2, gives="xy")
    h.observe("x", 0)


def _empty(table: str, *said: str, **finds: int) -> None:
    """A case in which one table of a right history is empty."""

    def draw(h: History) -> None:
        plain(h)
        h.alter(table, lambda _: None)

    draw.__name__ = f"a_right_history_whose_table_{table}_is_empty_is_unknown"
    case(broken=said, **finds)(draw)


_empty("partitions", "the table partitions is empty")
_empty("stages", "the table stages is empty")
_empty("journals", "the table journals is empty")
_empty("ops", "the table ops has 0")
_empty("sends", "the table sends is empty")
_empty("claims", "the table claims is empty")
_empty("polls", "the table polls holds nothing of")
_empty("records", "the table records holds nothing of")
_empty("ends", "no final reader read")
_empty("assignments", "the table assignments is empty")
_empty("expected", "the table expected is empty")
_empty("batches", "records of a/0 were read that its log does not hold")
_empty("replicas", "the table replicas names no leader")
_empty("transactions", "the table transactions is empty")
_empty("offsets", "the table offsets is empty")


@case(broken=("lacks 2 lines",))
def a_journal_with_missing_lines_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"missing_lines": 2} if row["journal"] == "w" else row)


@case()
def a_journal_with_a_torn_last_line_is_none(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"torn_lines": 1, "ended": False} if row["journal"] == "w" else row)


@case(broken=("journal f breaks off: its feeder",))
def a_feeder_that_was_cut_off_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("journals", lambda row: row | {"ended": False} if row["role"] == "feeder" else row)


@case(broken=("had 2 operations, and the table ops has 1",))
def an_operation_that_is_gone_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("ops", lambda row: None if row["name"] == "w:1" else row)


@case(broken=("nothing was consumed", "nothing was committed"))
def a_run_in_which_no_input_was_consumed_is_unknown(h: History) -> None:
    h.op("w", outcome="info")


@case(broken=("it stopped at offset 1",))
def a_final_reader_that_stopped_is_told_with_its_place(h: History) -> None:
    plain(h)
    h.alter("ends", lambda row: row | {"sentinel_offset": None, "next": 1} if row["tp"] == h.tp["y"] else row)


@case(
    options={"log": False},
    not_checked=("lost-commit", "ghost-commit", "dirty-read", "group-offset-regression"),
)
def without_logs_a_right_history_is_clean(h: History) -> None:
    plain(h)


@case(reprocessed_input=1, overlapping_commit=1)
def an_allowed_anomaly_is_listed_all_the_same(h: History) -> None:
    h.feed(1)
    h.take(0)
    h.take(0)
    h.allowed = frozenset({"reprocessed-input"})


@case(broken=("the leader's log of x/0 is not here, or is damaged",))
def a_damaged_log_is_a_gap(h: History) -> None:
    plain(h)
    h.alter(
        "replicas",
        lambda row: row | {"damaged": "a batch with a wrong crc"} if row["tp"] == h.tp["x"] else row,
    )


@case(broken=("no input is visible", "the high watermark of a/0 is 0"))
def a_log_that_ends_before_what_was_read_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("replicas", lambda row: row | {"high_watermark": 0})


@case(broken=("the log of a/0 begins at offset 1",))
def a_log_whose_beginning_is_gone_is_a_gap(h: History) -> None:
    plain(h)
    h.alter("replicas", lambda row: row | {"log_start": 1} if row["tp"] == 0 else row)
