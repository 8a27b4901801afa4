"""The expected result of each alteration when the store is checked without journals, and why some stay valid."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.support import altered_outputs as outputs
from tests.support import altered_transactions as transactions
from tests.support.alterations import Copy
from tests.support.altered_store import ALTERATIONS, UNKNOWN, VALID, Alteration
from tests.support.whole_log import record_key

JOURNAL_TABLES = ("assignments", "claims")
"""Tables that come only from the workers' journals. A check without journals does not need them."""


@dataclass(frozen=True)
class StaysValid:
    """The run stays valid, for this reason."""

    reason: str


ALTERS_A_JOURNAL = StaysValid("only a worker's journal is altered, and a custom pipeline keeps no journals")
ALTERS_ATTEMPT_NAMES = StaysValid(
    "only names of attempts are altered, and the records of a custom pipeline have no such names"
)
ALTERS_SEND_ORDER = StaysValid(
    "only the order of sends in the feeder's journal is altered: nonmonotonic-send needs the journals of all"
)
PASSES_OVER_NO_INPUT = StaysValid("there is no input between the old and the new offset")

Expected = frozenset[str] | tuple[set[str], set[str]] | StaysValid
"""UNKNOWN; or the anomalies that must be found, and those that may be found besides; or valid."""

EXPECTED_OF_JOURNALED: dict[str, Expected] = {
    "remove_an_output": UNKNOWN,  # the log has its batch
    "hide_an_output_from_the_final_reader": ({"lost-write"}, {"vanished"}),
    "give_two_outputs_one_value": ALTERS_ATTEMPT_NAMES,
    "change_the_content_of_an_output": ({"corrupt"}, set()),
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
    "drop_an_operation_of_a_journal": ALTERS_A_JOURNAL,
    "remove_a_sentinel": UNKNOWN,
    "raise_the_epoch_of_a_batch": ({"epoch-regression"}, {"sequence-violation", "zombie-write"}),
    "skip_a_sequence_number": ({"sequence-violation"}, set()),
    "complete_a_prepared_commit_as_an_abort": (
        {"transaction-state-violation", "torn-transaction"},
        set(),
    ),
    "never_complete_a_transaction": ({"stuck-completion"}, set()),
    "remove_a_marker": ({"unmarked-partition"}, {"dirty-read"}),
    "change_a_batch_of_one_replica": ({"replica-divergence"}, set()),
    "contend_for_an_id": ALTERS_A_JOURNAL,
    "fence_a_producer_without_cause": ALTERS_A_JOURNAL,
    "stall_for_two_minutes": ALTERS_A_JOURNAL,
    "remove_the_offsets_of_a_transaction": ({"offset-output-mismatch"}, set()),
    "remove_the_end_of_a_transaction": (
        {"read-above-lso", "hanging-transaction"},
        {"torn-transaction", "dirty-read", "sequence-violation", "unmarked-partition"},
    ),
    "deliver_a_record_at_a_marker": ({"vanished"}, set()),
    "deliver_another_value": ALTERS_ATTEMPT_NAMES,
    "deliver_its_own_record_to_a_transaction": ALTERS_A_JOURNAL,
    "skip_the_first_record_of_a_poll": ({"poll-skip"}, set()),
    "skip_a_record_inside_a_poll": ({"int-poll-skip"}, set()),
    "repeat_the_last_record_of_the_poll_before": ({"nonmonotonic-poll"}, set()),
    "deliver_a_record_twice_in_one_poll": ({"int-nonmonotonic-poll"}, set()),
    "send_in_another_order": ALTERS_SEND_ORDER,
    "send_in_another_order_inside_an_operation": ALTERS_A_JOURNAL,
    "begin_below_a_committed_offset": ALTERS_A_JOURNAL,
    "claim_committed_inputs_again": ALTERS_A_JOURNAL,
    "commit_an_input_that_was_not_delivered": ALTERS_A_JOURNAL,
    "write_a_wrong_sum": ({"aggregate-mismatch"}, set()),
    "swap_two_outputs": ({"order-violation"}, set()),
}
"""By name of an alteration of `altered_store`."""

EXPECTED_OF_LOGS: dict[Callable[[Copy], None], Expected] = {
    outputs.swap_outputs_of_two_transactions: ({"offset-output-mismatch"}, {"order-violation"}),
    outputs.overwrite_an_output_with_another: (
        {"reprocessed-input", "lost-input", "offset-output-mismatch"},
        set(),
    ),
    outputs.duplicate_an_output: ({"reprocessed-input", "offset-output-mismatch"}, set()),
    outputs.remove_an_output_from_the_log: ({"lost-input"}, {"sequence-violation"}),
    outputs.hide_an_output_from_every_reader: ({"lost-write"}, set()),
    outputs.remove_the_input_of_an_output: ({"lost-input", "phantom"}, set()),
    outputs.change_the_input_of_an_output: (
        {"reprocessed-input", "lost-input"},
        {"offset-output-mismatch", "corrupt", "order-violation"},
    ),
    outputs.add_an_output_without_an_input: ({"phantom", "offset-output-mismatch"}, set()),
    outputs.add_an_output_of_a_missing_input: ({"phantom", "offset-output-mismatch"}, set()),
    outputs.add_a_copy_outside_any_transaction: ({"reprocessed-input", "offset-output-mismatch"}, set()),
    transactions.remove_a_marker_of_outputs: ({"unmarked-partition"}, {"dirty-read"}),
    transactions.remove_a_marker_of_offsets: ({"unmarked-partition"}, set()),
    transactions.remove_the_last_marker: (
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
    transactions.abort_a_committed_transaction: ({"lost-input"}, set()),
    transactions.commit_an_aborted_transaction: (
        {"reprocessed-input"},
        {
            "offset-output-mismatch",
            "group-offset-regression",
            "order-violation",
            "poll-skip",
            "int-poll-skip",
        },
    ),
    transactions.remove_a_completion: UNKNOWN,
    transactions.remove_a_preparation: ({"transaction-state-violation"}, set()),
    transactions.drop_a_row_of_the_transactions_table: UNKNOWN,
    transactions.drop_a_row_of_the_offsets_table: UNKNOWN,
    transactions.move_an_offset_back: ({"offset-output-mismatch"}, set()),
    transactions.move_an_offset_forward: ({"offset-output-mismatch"}, set()),
    transactions.move_the_last_offset_of_a_partition_back: ({"offset-output-mismatch"}, set()),
    transactions.move_the_last_offset_of_a_partition_forward: PASSES_OVER_NO_INPUT,
    transactions.commit_beyond_the_end: ({"offset-output-mismatch"}, set()),
    transactions.remove_an_offset_commit_from_the_log: ({"offset-output-mismatch"}, set()),
}
"""By alteration of `altered_outputs` and `altered_transactions`."""


def replace_inputs_by_keys(copy: Copy) -> None:
    """Replace the inputs that outputs name by correlation keys, which outputs of a custom pipeline have."""
    keys = {record_key(row): f"{row['tp']}/{row['offset']}" for row in copy.rows("records")}

    def with_key(row: dict[str, object]) -> dict[str, object]:
        if not row["inputs"]:
            return row
        (source,) = row["inputs"]  # type: ignore[misc]
        return row | {"correlation_key": keys[record_key(source)], "inputs": [], "output_name": None}

    copy.write("records", [with_key(row) for row in copy.rows("records")])
    copy.write(
        "expected",
        [row | {"correlation_key": keys[record_key(row)]} for row in copy.rows("expected")],
    )
    toml = copy.folder / "run.toml"
    toml.write_text(toml.read_text().replace('identity = "journal"', 'identity = "correlation"'))


def _both(change: Callable[[Copy], None]) -> Callable[[Copy], None]:
    def joined(copy: Copy) -> None:
        replace_inputs_by_keys(copy)
        change(copy)

    return joined


def _alteration(change: Callable[[Copy], None], expected: Expected) -> Alteration:
    if isinstance(expected, StaysValid):
        return Alteration(change, VALID)
    if isinstance(expected, frozenset):
        return Alteration(change, expected)
    root, also = expected
    return Alteration(change, frozenset(root), frozenset(also))


BLIND_ALTERATIONS: dict[str, Alteration] = {
    **{
        name: _alteration(alteration.change, EXPECTED_OF_JOURNALED[name])
        for name, alteration in ALTERATIONS.items()
    },
    **{change.__name__: _alteration(change, expected) for change, expected in EXPECTED_OF_LOGS.items()},
    **{
        f"{change.__name__}_joined": _alteration(_both(change), expected)
        for change, expected in EXPECTED_OF_LOGS.items()
    },
    "replace_inputs_by_keys": Alteration(replace_inputs_by_keys, VALID),
}
"""Each alteration with its expected result without journals.

Alterations of the logs occur twice: names that end in `_joined` are for outputs that are joined by correlation key.
"""
