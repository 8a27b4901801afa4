"""Alterations of outputs in a store that is checked without journals.

Each alteration needs only the tables of the logs and of the final readers. Therefore it works on the run of a workload
and on the run of a custom pipeline.
"""

from itertools import pairwise

from tests.support.alterations import Copy, Row
from tests.support.altered_log import take_out
from tests.support.whole_log import (
    CONTENT_COLUMNS,
    append_batches,
    append_states,
    decided_transactions,
    deciding_marker,
    leader_batches,
    outputs_topic,
    record_key,
    replace_record,
    transaction_log,
    visible_records,
)


def content_of(row: Row) -> Row:
    return {column: row[column] for column in CONTENT_COLUMNS}


def has_correlation_keys(copy: Copy) -> bool:
    """Whether outputs are joined to their inputs by a correlation key."""
    return any(row["correlation_key"] is not None for row in copy.rows("records"))


def two_outputs_of_a_partition(copy: Copy) -> tuple[Row, Row]:
    """Two outputs next to each other in one partition, of two transactions and with different digests."""
    batches = leader_batches(copy)
    rows = visible_records(copy, outputs_topic(copy))
    for first, second in pairwise(rows[len(rows) // 3 :]):
        if first["tp"] == second["tp"]:
            markers = [deciding_marker(batches, row["tp"], row["offset"]) for row in (first, second)]
            if markers[0] != markers[1] and first["digest"] != second["digest"]:
                return first, second
    raise AssertionError("no partition has outputs of two transactions")


def pick_an_output(copy: Copy) -> Row:
    rows = visible_records(copy, outputs_topic(copy))
    return rows[len(rows) // 2]


# outputs


def swap_outputs_of_two_transactions(copy: Copy) -> None:
    """Swap two outputs, so that each is in the transaction of the other."""
    first, second = two_outputs_of_a_partition(copy)
    replace_record(copy, first, **content_of(second))
    replace_record(copy, second, **content_of(first))


def overwrite_an_output_with_another(copy: Copy) -> None:
    first, second = two_outputs_of_a_partition(copy)
    replace_record(copy, second, **content_of(first))


def duplicate_an_output(copy: Copy) -> None:
    """One more transaction has a copy of the output and no other record."""
    output = pick_an_output(copy)
    tp, txn = output["tp"], decided_transactions(copy, "commit")[0]
    own = [row for row in leader_batches(copy)[tp] if not row["control"]]
    last = next(row for row in reversed(own) if row["transactional"])
    data = last | {"count": 1, "base_sequence": last["base_sequence"] + last["count"]}
    by_id = {row["producer_id"]: row for row in transaction_log(copy)}
    state = by_id[last["producer_id"]] | {"tps": [tp], "start_ms": txn.prepared["start_ms"]}
    last_marker = next(
        row for row in reversed(leader_batches(copy)[tp]) if row["control"] and row["marker"] == "commit"
    )
    marker = last_marker | {"producer_id": last["producer_id"], "epoch": last["epoch"]}
    append_batches(copy, tp, [data, marker], [output])
    states = [state | {"state": name} for name in ("Ongoing", "PrepareCommit")]
    append_states(copy, [*states, state | {"state": "CompleteCommit", "tps": []}])


def remove_an_output_from_the_log(copy: Copy) -> None:
    """Remove it with its batch from every replica, and from what readers read."""
    batches = leader_batches(copy)
    counts = {(row["tp"], row["base_offset"]): row["count"] for rows in batches.values() for row in rows}
    rows = visible_records(copy, outputs_topic(copy))
    removed = next(record_key(row) for row in rows[len(rows) // 2 :] if counts.get(record_key(row)) == 1)
    take_out(copy, *removed)


def hide_an_output_from_every_reader(copy: Copy) -> None:
    """Remove it from the polls of the observers and final readers. It stays in the log."""
    removed = record_key(pick_an_output(copy))
    copy.write(
        "polls", [row for row in copy.rows("polls") if record_key(row) != removed or row["role"] == "worker"]
    )


def remove_the_input_of_an_output(copy: Copy) -> None:
    """The output has another correlation key, or names no input."""
    changed = (
        {"correlation_key": "nothing that is there"}
        if has_correlation_keys(copy)
        else {"inputs": [], "output_name": None}
    )
    replace_record(copy, pick_an_output(copy), **changed)


def change_the_input_of_an_output(copy: Copy) -> None:
    first, second = two_outputs_of_a_partition(copy)
    replace_record(copy, first, correlation_key=second["correlation_key"], inputs=second["inputs"])


# records that no stage sent
def _add_plain_record(copy: Copy, **more: object) -> None:
    """Append a record outside any transaction: a copy of an output with the columns `more` changed."""
    like = pick_an_output(copy)
    batch = next(row for row in leader_batches(copy)[like["tp"]] if not row["control"])
    plain = {"producer_id": -1, "epoch": -1, "base_sequence": -1, "transactional": False, "count": 1}
    append_batches(copy, like["tp"], [batch | plain], [like | {"value": None} | more])


def add_an_output_without_an_input(copy: Copy) -> None:

    if has_correlation_keys(copy):
        _add_plain_record(copy, correlation_key="a purchase that nobody made", digest=12345)
    else:
        _add_plain_record(copy, inputs=[], output_name=None, digest=12345)


def add_an_output_of_a_missing_input(copy: Copy) -> None:
    """The output names an input above the last one, or has a correlation key that no input has."""
    if has_correlation_keys(copy):
        _add_plain_record(copy, correlation_key="", digest=12345)
    else:
        tp = pick_an_output(copy)["inputs"][0]["tp"]
        end = next(row["log_end"] for row in copy.rows("replicas") if row["tp"] == tp and row["leader"])
        _add_plain_record(copy, inputs=[{"tp": tp, "offset": end - 2}])


def add_a_copy_outside_any_transaction(copy: Copy) -> None:
    _add_plain_record(copy)
