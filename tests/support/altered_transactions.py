"""Alterations of transactions in a store that is checked without journals: markers, states, offsets.

Each alteration needs only the tables of the logs and of the final readers. Therefore it works on the run of a workload
and on the run of a custom pipeline.
"""

from collections import Counter

from tests.support.alterations import Copy, Row
from tests.support.altered_log import batch_key, batches_by_producer, take_out
from tests.support.whole_log import (
    OFFSETS,
    Txn,
    decided_transactions,
    outputs_topic,
    record_key,
    records_of_transaction,
    remove_state,
    set_decision,
    set_markers,
)


def _remove_a_marker(copy: Copy, topic: str) -> None:
    """Remove a commit marker from every replica. The producer's next marker is a commit too."""
    own = {marker for txn in decided_transactions(copy, "commit") for marker in txn.markers}
    for (tp, _), rows in sorted(batches_by_producer(copy, topic)[1].items()):
        kinds = [row["marker"] if row["control"] else "data" for row in rows]
        for at in range(1, len(kinds) - 2):
            if (
                kinds[at - 1 : at + 3] == ["data", "commit", "data", "commit"]
                and (tp, rows[at]["base_offset"]) in own
            ):
                take_out(copy, tp, rows[at]["base_offset"])
                return
    raise AssertionError("no producer committed twice in a row")


def remove_a_marker_of_outputs(copy: Copy) -> None:
    _remove_a_marker(copy, outputs_topic(copy))


def remove_a_marker_of_offsets(copy: Copy) -> None:
    _remove_a_marker(copy, OFFSETS)


def remove_the_last_marker(copy: Copy) -> None:
    """Remove the last marker of a producer in a partition of outputs, so that its last transaction is open there."""
    by = batches_by_producer(copy, outputs_topic(copy))[1]
    ended = [rows[-1] for rows in by.values() if rows[-1]["control"] and not rows[-2]["control"]]
    last = min(ended, key=lambda row: row["base_offset"])  # it has records of other producers above it
    take_out(copy, *batch_key(last))


def _with_outputs(copy: Copy, decision: str, topic: str) -> Txn:
    """A transaction with this decision that wrote to the topic."""
    txns = [txn for txn in decided_transactions(copy, decision) if records_of_transaction(copy, txn, topic)]
    return txns[len(txns) // 2]


def flip_the_marker_of_offsets(copy: Copy) -> None:
    """Flip only the marker in the offsets topic."""
    txn, tps = _with_outputs(copy, "commit", outputs_topic(copy)), copy.tp(OFFSETS)
    set_markers(copy, [marker for marker in txn.markers if marker[0] in tps], "abort")


def flip_every_marker_of_a_commit(copy: Copy) -> None:
    """The transaction log still says that the transaction is committed."""
    set_markers(copy, _with_outputs(copy, "commit", outputs_topic(copy)).markers, "abort")


def flip_every_marker_of_an_abort(copy: Copy) -> None:
    set_markers(copy, _with_outputs(copy, "abort", outputs_topic(copy)).markers, "commit")


def abort_a_committed_transaction(copy: Copy) -> None:
    """Abort it in the transaction log and in every marker, and remove its records from all reads."""
    txn = _with_outputs(copy, "commit", outputs_topic(copy))
    aborted = {record_key(row) for topic in _topics(copy) for row in records_of_transaction(copy, txn, topic)}
    set_decision(copy, txn, "abort")
    copy.write("polls", [row for row in copy.rows("polls") if record_key(row) not in aborted])


def commit_an_aborted_transaction(copy: Copy) -> None:
    """Commit it in the transaction log and in every marker, and let the final reader read its records.

    Another transaction processed its inputs again.
    """
    txn = _with_outputs(copy, "abort", outputs_topic(copy))
    records = [row for topic in _topics(copy) for row in records_of_transaction(copy, txn, topic)]
    set_decision(copy, txn, "commit")
    polls = copy.rows("polls")
    like = {row["tp"]: row for row in polls if row["role"] == "final"}
    reads = [
        like[row["tp"]] | {"offset": row["offset"], "n": 1_000_000 + n, "value": None}
        for n, row in enumerate(records)
    ]
    copy.write("polls", [*polls, *reads])


def _topics(copy: Copy) -> set[str]:
    return {row["topic"] for row in copy.rows("partitions") if not row["internal"]}


# the transaction log


def _end_of_a_txn(copy: Copy) -> Txn:
    """A committed transaction of the transactional id that has most of them. Others follow it."""
    committed = decided_transactions(copy, "commit")
    counts = Counter(txn.completed["transactional_id"] for txn in committed)
    name = counts.most_common(1)[0][0]
    own = [txn for txn in committed if txn.completed["transactional_id"] == name]
    return own[len(own) // 2]


def remove_a_completion(copy: Copy) -> None:
    """Remove the state and close the gap in the log."""
    remove_state(copy, _end_of_a_txn(copy).completed)


def remove_a_preparation(copy: Copy) -> None:
    remove_state(copy, _end_of_a_txn(copy).prepared)


def drop_a_row_of_the_transactions_table(copy: Copy) -> None:
    """Remove a row of the table. The log still has its offset."""
    dropped = _end_of_a_txn(copy).completed
    copy.write("transactions", [row for row in copy.rows("transactions") if row != dropped])


def drop_a_row_of_the_offsets_table(copy: Copy) -> None:
    dropped = _commit_of_many(copy)
    copy.write("offsets", [row for row in copy.rows("offsets") if row != dropped])


# offsets of groups


def _commits(copy: Copy) -> list[list[Row]]:
    """The offset commits in transactions, by group and partition, in order."""
    by: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(copy.rows("offsets"), key=lambda row: (row["log_tp"], row["log_offset"])):
        if row["transactional"]:
            by.setdefault((row["group"], row["tp"]), []).append(row)
    return list(by.values())


def _inputs(copy: Copy) -> set[tuple[int, int]]:
    """Partition and offset of all records that the final reader read, without the sentinels."""
    ends = {record_key(row) for row in copy.rows("records") if row["sentinel"]}
    return {record_key(row) for row in copy.rows("polls") if row["role"] == "final"} - ends


def _commit_of_many(copy: Copy) -> Row:
    """An offset commit of several inputs. The group committed before and after it for the same partition, and there
    is an input directly before and after the offset.
    """
    inputs = _inputs(copy)
    commits = [
        row
        for own in _commits(copy)
        for before, row, after in zip(own, own[1:], own[2:], strict=False)
        if before["committed"] + 1 < row["committed"] < after["committed"]
        and {(row["tp"], row["committed"] - 1), (row["tp"], row["committed"])} <= inputs
    ]
    return commits[len(commits) // 2]


def _move(copy: Copy, commit: Row, by: int) -> None:
    copy.write(
        "offsets",
        [
            row | {"committed": row["committed"] + by} if row == commit else row
            for row in copy.rows("offsets")
        ],
    )


def move_an_offset_back(copy: Copy) -> None:
    """Move it back by one. The next transaction of the group covers that input."""
    _move(copy, _commit_of_many(copy), -1)


def move_an_offset_forward(copy: Copy) -> None:
    """Move it forward by one. It covers an input of the next transaction."""
    _move(copy, _commit_of_many(copy), 1)


def _last_commit(copy: Copy) -> Row:
    """The last commit of a group for a partition whose inputs are all processed."""
    inputs = _inputs(copy)
    last = [own[-1] for own in _commits(copy) if (own[-1]["tp"], own[-1]["committed"] - 1) in inputs]
    return next(row for row in last if (row["tp"], row["committed"]) not in inputs)


def move_the_last_offset_of_a_partition_back(copy: Copy) -> None:
    _move(copy, _last_commit(copy), -1)


def move_the_last_offset_of_a_partition_forward(copy: Copy) -> None:
    """Move it forward by one: past a marker, or past the end."""
    _move(copy, _last_commit(copy), 1)


def commit_beyond_the_end(copy: Copy) -> None:

    _move(copy, _last_commit(copy), 1000)


def remove_an_offset_commit_from_the_log(copy: Copy) -> None:
    removed = _commit_of_many(copy)
    take_out(copy, removed["log_tp"], removed["log_offset"])
