"""What can be altered of the outputs of a store that is judged without journals.

Each alteration looks at the tables of the logs and of the final readers alone, so that a run of a user's program can be
altered as well as one of ours.
"""

from itertools import pairwise

from tests.support.alterations import Copy, Row
from tests.support.whole_log import (
    HOLDS,
    append,
    leader_batches,
    marker_above,
    outputs_topic,
    place,
    replace_record,
    transaction_log,
    txns,
    visible,
    write_down,
)


def holds(row: Row) -> Row:
    return {column: row[column] for column in HOLDS}


def joined(copy: Copy) -> bool:
    """Whether outputs are joined to their inputs by what they are about."""
    return any(row["correlation_key"] is not None for row in copy.rows("records"))


def two_of_one_partition(copy: Copy) -> tuple[Row, Row]:
    """Two outputs of two transactions, made of inputs of one partition where that can be seen."""
    batches = leader_batches(copy)
    rows = visible(copy, outputs_topic(copy))
    for one, other in pairwise(rows[len(rows) // 3 :]):
        if one["tp"] == other["tp"]:
            mine, its = (marker_above(batches, row["tp"], row["offset"]) for row in (one, other))
            if mine != its and one["digest"] != other["digest"]:
                return one, other
    raise AssertionError("no partition has outputs of two transactions")


def one_of_many(copy: Copy) -> Row:
    rows = visible(copy, outputs_topic(copy))
    return rows[len(rows) // 2]


# outputs


def move_an_output_into_another_transaction(copy: Copy) -> None:
    """Two outputs change places, each into the transaction of the other."""
    one, other = two_of_one_partition(copy)
    replace_record(copy, one, **holds(other))
    replace_record(copy, other, **holds(one))


def double_an_output_in_the_place_of_another(copy: Copy) -> None:
    one, other = two_of_one_partition(copy)
    replace_record(copy, other, **holds(one))


def double_an_output(copy: Copy) -> None:
    """A transaction more holds its copy, and nothing else."""
    output = one_of_many(copy)
    tp, txn = output["tp"], txns(copy, "commit")[0]
    own = [row for row in leader_batches(copy)[tp] if not row["control"]]
    last = next(row for row in reversed(own) if row["transactional"])
    data = last | {"count": 1, "base_sequence": last["base_sequence"] + last["count"]}
    by_id = {row["producer_id"]: row for row in transaction_log(copy)}
    state = by_id[last["producer_id"]] | {"tps": [tp], "start_ms": txn.prepared["start_ms"]}
    last_marker = next(
        row for row in reversed(leader_batches(copy)[tp]) if row["control"] and row["marker"] == "commit"
    )
    marker = last_marker | {"producer_id": last["producer_id"], "epoch": last["epoch"]}
    append(copy, tp, [data, marker], [output])
    states = [state | {"state": name} for name in ("Ongoing", "PrepareCommit")]
    write_down(copy, [*states, state | {"state": "CompleteCommit", "tps": []}])


def take_an_output_out_of_the_log(copy: Copy) -> None:
    """With its batch, on every replica: nobody was ever given it."""
    batches = leader_batches(copy)
    counts = {(row["tp"], row["base_offset"]): row["count"] for rows in batches.values() for row in rows}
    rows = visible(copy, outputs_topic(copy))
    gone = next(place(row) for row in rows[len(rows) // 2 :] if counts.get(place(row)) == 1)
    copy.write("batches", [row for row in copy.rows("batches") if (row["tp"], row["base_offset"]) != gone])
    for table in ("records", "polls"):
        copy.write(table, [row for row in copy.rows(table) if place(row) != gone])


def hide_an_output_from_every_reader(copy: Copy) -> None:
    """From all that read committed; it stands in the log."""
    gone = place(one_of_many(copy))
    copy.write("polls", [row for row in copy.rows("polls") if place(row) != gone or row["role"] == "worker"])


def let_an_output_say_nothing_of_its_input(copy: Copy) -> None:
    """It is about something else, or names no input."""
    changed = (
        {"correlation_key": "nothing that is there"} if joined(copy) else {"inputs": [], "output_name": None}
    )
    replace_record(copy, one_of_many(copy), **changed)


def let_an_output_name_the_input_of_another(copy: Copy) -> None:
    one, other = two_of_one_partition(copy)
    replace_record(copy, one, correlation_key=other["correlation_key"], inputs=other["inputs"])


# records of others


def _add(copy: Copy, **more: object) -> None:
    """A record that was sent outside any transaction, like one of the outputs but for this."""
    like = one_of_many(copy)
    batch = next(row for row in leader_batches(copy)[like["tp"]] if not row["control"])
    plain = {"producer_id": -1, "epoch": -1, "base_sequence": -1, "transactional": False, "count": 1}
    append(copy, like["tp"], [batch | plain], [like | {"value": None} | more])


def add_a_foreign_output(copy: Copy) -> None:
    """No input accounts for it."""
    if joined(copy):
        _add(copy, correlation_key="a purchase that nobody made", digest=12345)
    else:
        _add(copy, inputs=[], output_name=None, digest=12345)


def add_an_output_of_an_input_that_is_not_there(copy: Copy) -> None:
    """It names an input above the last of all; of outputs that name none, one of a purchase that nobody made."""
    if joined(copy):
        _add(copy, correlation_key="", digest=12345)
    else:
        tp = one_of_many(copy)["inputs"][0]["tp"]
        end = next(row["log_end"] for row in copy.rows("replicas") if row["tp"] == tp and row["leader"])
        _add(copy, inputs=[{"tp": tp, "offset": end - 2}])


def add_a_copy_of_an_output(copy: Copy) -> None:
    """Sent outside any transaction."""
    _add(copy)
