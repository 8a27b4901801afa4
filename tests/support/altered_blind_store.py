"""Stores that are judged without journals: what must come of each alteration, and why one of them may be valid."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.support import altered_outputs as outputs
from tests.support import altered_transactions as transactions
from tests.support.alterations import Copy
from tests.support.altered_store import ALTERATIONS, UNKNOWN, VALID, Alteration
from tests.support.whole_log import place

TABLES_OF_WORKERS = ("assignments", "claims")
"""They hold nothing but what workers said, so a store that is judged without journals lacks nothing without them."""


@dataclass(frozen=True)
class Silent:
    """A run stays valid, and why."""

    why: str


WORKERS = Silent("what the worker's journal says is altered, and such a pipeline keeps none")
NAMES = Silent("the names of attempts are altered, which the records of such a pipeline do not bear")
FEEDER = Silent(
    "the order in which the feeder says that it sent is altered: nonmonotonic-send needs the journals of all"
)
BELOW_NOTHING = Silent(
    "no input stands between the offset and the one that it was moved to, so none is passed over"
)
"""Why an alteration may be valid."""

Expected = frozenset[str] | tuple[set[str], set[str]] | Silent
"""Unknown; or what must be found and what may follow; or valid."""

OF_JOURNALED: dict[str, Expected] = {
    "remove_an_output": UNKNOWN,  # the log holds it
    "hide_an_output_from_the_final_reader": ({"lost-write"}, {"vanished"}),
    "give_an_output_twice": NAMES,
    "change_what_an_output_holds": ({"corrupt"}, set()),
    "flip_a_commit_marker": (
        {"torn-transaction"},
        {"dirty-read", "lost-input", "offset-output-mismatch", "zombie-write"},
    ),
    "flip_an_abort_marker": (
        {"torn-transaction"},
        {
            "offset-output-mismatch",
            "reprocessed-input",
            "lost-write",
            "lost-input",
            "zombie-write",
            "phantom",
        },
    ),
    "move_an_offset_record_back": ({"group-offset-regression"}, {"offset-output-mismatch"}),
    "drop_a_line_of_a_journal": WORKERS,
    "lose_a_sentinel": UNKNOWN,
    "raise_the_epoch_of_a_batch": ({"epoch-regression"}, {"sequence-violation"}),
    "skip_a_sequence_number": ({"sequence-violation"}, set()),
    "complete_with_an_abort_what_was_prepared_to_commit": (
        {"transaction-state-violation", "torn-transaction"},
        set(),
    ),
    "never_complete_a_transaction": ({"stuck-completion"}, set()),
    "take_away_a_marker": ({"unmarked-partition"}, {"dirty-read"}),
    "change_a_batch_of_one_replica": ({"replica-divergence"}, set()),
    "take_an_id_back": WORKERS,
    "fence_somebody_for_nothing": WORKERS,
    "stand_still_for_two_minutes": WORKERS,
    "lose_the_offsets_of_a_transaction": ({"offset-output-mismatch"}, set()),
    "take_away_the_end_of_a_transaction": (
        {"read-above-lso", "hanging-transaction"},
        {"torn-transaction", "dirty-read", "sequence-violation", "unmarked-partition"},
    ),
    "give_a_record_where_there_is_none": ({"vanished"}, set()),
    "tell_an_observer_another_value": NAMES,
    "give_a_transaction_its_own_record": WORKERS,
    "skip_the_first_record_of_a_poll": ({"poll-skip"}, set()),
    "skip_a_record_inside_a_poll": ({"int-poll-skip"}, set()),
    "give_the_last_record_of_the_poll_before_again": ({"nonmonotonic-poll"}, set()),
    "give_a_record_twice_in_one_poll": ({"int-nonmonotonic-poll"}, set()),
    "send_in_another_order": FEEDER,
    "send_in_another_order_inside_an_operation": WORKERS,
    "begin_below_a_committed_offset": WORKERS,
    "claim_what_another_has_committed": WORKERS,
    "commit_beyond_what_was_given": WORKERS,
    "add_up_wrong": ({"aggregate-mismatch"}, set()),
    "put_outputs_in_another_order": ({"order-violation"}, set()),
}
"""By alteration of a journaled store."""

OF_LOGS: dict[Callable[[Copy], None], Expected] = {
    outputs.move_an_output_into_another_transaction: ({"offset-output-mismatch"}, {"order-violation"}),
    outputs.double_an_output_in_the_place_of_another: (
        {"reprocessed-input", "lost-input", "offset-output-mismatch"},
        set(),
    ),
    outputs.double_an_output: ({"reprocessed-input", "offset-output-mismatch"}, set()),
    outputs.take_an_output_out_of_the_log: ({"lost-input"}, {"sequence-violation"}),
    outputs.hide_an_output_from_every_reader: ({"lost-write"}, set()),
    outputs.let_an_output_say_nothing_of_its_input: ({"lost-input", "phantom"}, set()),
    outputs.let_an_output_name_the_input_of_another: (
        {"reprocessed-input", "lost-input"},
        {"offset-output-mismatch", "corrupt", "order-violation"},
    ),
    outputs.add_a_foreign_output: ({"phantom", "offset-output-mismatch"}, set()),
    outputs.add_an_output_of_an_input_that_is_not_there: ({"phantom", "offset-output-mismatch"}, set()),
    outputs.add_a_copy_of_an_output: ({"reprocessed-input", "offset-output-mismatch"}, set()),
    transactions.take_away_a_marker_of_outputs: ({"unmarked-partition"}, {"dirty-read"}),
    transactions.take_away_a_marker_of_offsets: ({"unmarked-partition"}, set()),
    transactions.take_away_the_last_marker: (
        {"unmarked-partition", "hanging-transaction"},
        {"dirty-read", "read-above-lso", "lost-input", "vanished"},
    ),
    transactions.flip_the_marker_of_offsets: ({"torn-transaction", "offset-output-mismatch"}, set()),
    transactions.flip_every_marker_of_a_commit: ({"torn-transaction"}, {"dirty-read", "lost-input"}),
    transactions.flip_every_marker_of_an_abort: (
        {"torn-transaction"},
        {
            "reprocessed-input",
            "offset-output-mismatch",
            "group-offset-regression",
            "lost-write",
            "order-violation",
        },
    ),
    transactions.abort_what_was_committed: ({"lost-input"}, set()),
    transactions.commit_what_was_aborted: (
        {"reprocessed-input"},
        {
            "offset-output-mismatch",
            "group-offset-regression",
            "order-violation",
            "poll-skip",
            "int-poll-skip",
        },
    ),
    transactions.forget_a_completion: UNKNOWN,
    transactions.forget_a_preparation: ({"transaction-state-violation"}, set()),
    transactions.lose_a_row_of_the_transaction_log: UNKNOWN,
    transactions.lose_an_offset_commit_of_the_table: UNKNOWN,
    transactions.move_an_offset_back: ({"offset-output-mismatch"}, set()),
    transactions.move_an_offset_forward: ({"offset-output-mismatch"}, set()),
    transactions.move_the_last_offset_of_a_partition_back: ({"offset-output-mismatch"}, set()),
    transactions.move_the_last_offset_of_a_partition_forward: BELOW_NOTHING,
    transactions.commit_beyond_the_end: ({"offset-output-mismatch"}, set()),
    transactions.take_an_offset_commit_out_of_the_log: ({"offset-output-mismatch"}, set()),
}
"""By alteration of the logs."""


def join(copy: Copy) -> None:
    """Have each output say what it is about, where it named its input: as outputs of a user's program do."""
    correlation_key = {place(row): f"{row['tp']}/{row['offset']}" for row in copy.rows("records")}

    def of(row: dict[str, object]) -> dict[str, object]:
        if not row["inputs"]:
            return row
        (at,) = row["inputs"]  # type: ignore[misc]
        return row | {"correlation_key": correlation_key[place(at)], "inputs": [], "output_name": None}

    copy.write("records", [of(row) for row in copy.rows("records")])
    copy.write(
        "expected", [row | {"correlation_key": correlation_key[place(row)]} for row in copy.rows("expected")]
    )
    toml = copy.folder / "run.toml"
    toml.write_text(toml.read_text().replace('identity = "journal"', 'identity = "correlation"'))


def _both(change: Callable[[Copy], None]) -> Callable[[Copy], None]:
    def joined(copy: Copy) -> None:
        join(copy)
        change(copy)

    return joined


def _alteration(change: Callable[[Copy], None], expected: Expected) -> Alteration:
    if isinstance(expected, Silent):
        return Alteration(change, VALID)
    if isinstance(expected, frozenset):
        return Alteration(change, expected)
    root, also = expected
    return Alteration(change, frozenset(root), frozenset(also))


BLIND: dict[str, Alteration] = {
    **{name: _alteration(one.change, OF_JOURNALED[name]) for name, one in ALTERATIONS.items()},
    **{change.__name__: _alteration(change, expected) for change, expected in OF_LOGS.items()},
    **{
        f"{change.__name__}_joined": _alteration(_both(change), expected)
        for change, expected in OF_LOGS.items()
    },
    "join": Alteration(join, VALID),
}
"""Each alteration, and what is found of it without journals. Those of the logs also where outputs are joined to inputs:
`_joined`.
"""
