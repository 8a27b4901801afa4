"""What can be altered of transactions of a store that is judged without journals: markers, states, offsets.

Each alteration looks at the tables of the logs and of the final readers alone, so that a run of a user's program can be
altered as well as one of ours.
"""

from collections import Counter

from tests.support.alterations import Copy, Row
from tests.support.altered_log import entries
from tests.support.whole_log import (
    OFFSETS,
    Txn,
    decide,
    mark,
    outputs_topic,
    place,
    records_of,
    take_out,
    txns,
)


def _take_a_marker_away(copy: Copy, topic: str) -> None:
    """One that was written once, on every replica; the producer's next one commits as well."""
    own = {marker for txn in txns(copy, "commit") for marker in txn.markers}
    for (tp, _), rows in sorted(entries(copy, topic)[1].items()):
        kinds = [row["marker"] if row["control"] else "data" for row in rows]
        for at in range(1, len(kinds) - 2):
            if (
                kinds[at - 1 : at + 3] == ["data", "commit", "data", "commit"]
                and (tp, rows[at]["base_offset"]) in own
            ):
                gone = tp, rows[at]["base_offset"]
                kept = [row for row in copy.rows("batches") if (row["tp"], row["base_offset"]) != gone]
                copy.write("batches", kept)
                return
    raise AssertionError("no producer committed twice in a row")


def take_away_a_marker_of_outputs(copy: Copy) -> None:
    _take_a_marker_away(copy, outputs_topic(copy))


def take_away_a_marker_of_offsets(copy: Copy) -> None:
    _take_a_marker_away(copy, OFFSETS)


def take_away_the_last_marker(copy: Copy) -> None:
    """Of a producer in a partition of outputs: what it wrote there is open."""
    by = entries(copy, outputs_topic(copy))[1]
    ended = [rows[-1] for rows in by.values() if rows[-1]["control"] and not rows[-2]["control"]]
    last = min(ended, key=lambda row: row["base_offset"])  # with others' records above it
    gone = last["tp"], last["base_offset"]
    copy.write("batches", [row for row in copy.rows("batches") if (row["tp"], row["base_offset"]) != gone])


def _with_outputs(copy: Copy, decided: str, topic: str) -> Txn:
    """One of many transactions that wrote to that topic, and whose producer went on."""
    found = [txn for txn in txns(copy, decided) if records_of(copy, txn, topic)]
    return found[len(found) // 2]


def flip_the_marker_of_offsets(copy: Copy) -> None:
    """In that one partition of a transaction."""
    txn, tps = _with_outputs(copy, "commit", outputs_topic(copy)), copy.tp(OFFSETS)
    mark(copy, [marker for marker in txn.markers if marker[0] in tps], "abort")


def flip_every_marker_of_a_commit(copy: Copy) -> None:
    """The transaction log says that it is committed."""
    mark(copy, _with_outputs(copy, "commit", outputs_topic(copy)).markers, "abort")


def flip_every_marker_of_an_abort(copy: Copy) -> None:
    mark(copy, _with_outputs(copy, "abort", outputs_topic(copy)).markers, "commit")


def abort_what_was_committed(copy: Copy) -> None:
    """By the transaction log and by every marker: no reader was given it."""
    txn = _with_outputs(copy, "commit", outputs_topic(copy))
    gone = {place(row) for topic in _topics(copy) for row in records_of(copy, txn, topic)}
    decide(copy, txn, "abort")
    copy.write("polls", [row for row in copy.rows("polls") if place(row) not in gone])


def commit_what_was_aborted(copy: Copy) -> None:
    """By the transaction log and by every marker, and the final reader was given it: its inputs were taken again."""
    txn = _with_outputs(copy, "abort", outputs_topic(copy))
    more = [row for topic in _topics(copy) for row in records_of(copy, txn, topic)]
    decide(copy, txn, "commit")
    polls = copy.rows("polls")
    like = {row["tp"]: row for row in polls if row["role"] == "final"}
    given = [
        like[row["tp"]] | {"offset": row["offset"], "n": 1_000_000 + n, "value": None}
        for n, row in enumerate(more)
    ]
    copy.write("polls", [*polls, *given])


def _topics(copy: Copy) -> set[str]:
    return {row["topic"] for row in copy.rows("partitions") if not row["internal"]}


# the transaction log


def _end_of_a_txn(copy: Copy) -> Txn:
    """Whose transactional id had others after it."""
    found = txns(copy, "commit")
    many = Counter(txn.completed["transactional_id"] for txn in found)
    name = many.most_common(1)[0][0]
    own = [txn for txn in found if txn.completed["transactional_id"] == name]
    return own[len(own) // 2]


def forget_a_completion(copy: Copy) -> None:
    """The log closes up over it."""
    take_out(copy, _end_of_a_txn(copy).completed)


def forget_a_preparation(copy: Copy) -> None:
    take_out(copy, _end_of_a_txn(copy).prepared)


def lose_a_row_of_the_transaction_log(copy: Copy) -> None:
    """The table lacks it, and the log does not."""
    gone = _end_of_a_txn(copy).completed
    copy.write("transactions", [row for row in copy.rows("transactions") if row != gone])


def lose_an_offset_commit_of_the_table(copy: Copy) -> None:
    gone = _commit_of_many(copy)
    copy.write("offsets", [row for row in copy.rows("offsets") if row != gone])


# offsets of groups


def _commits(copy: Copy) -> list[list[Row]]:
    """The offset commits in transactions, by group and partition, in order."""
    by: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(copy.rows("offsets"), key=lambda row: (row["log_tp"], row["log_offset"])):
        if row["transactional"]:
            by.setdefault((row["group"], row["tp"]), []).append(row)
    return list(by.values())


def _inputs(copy: Copy) -> set[tuple[int, int]]:
    """The places of all records that the final reader was given, without the sentinels: no marker is among them."""
    ends = {place(row) for row in copy.rows("records") if row["sentinel"]}
    return {place(row) for row in copy.rows("polls") if row["role"] == "final"} - ends


def _commit_of_many(copy: Copy) -> Row:
    """One of several inputs. Its group had committed for its partition before, and did so again; an input stands on
    either side of the offset.
    """
    there = _inputs(copy)
    found = [
        row
        for own in _commits(copy)
        for before, row, after in zip(own, own[1:], own[2:], strict=False)
        if before["committed"] + 1 < row["committed"] < after["committed"]
        and {(row["tp"], row["committed"] - 1), (row["tp"], row["committed"])} <= there
    ]
    return found[len(found) // 2]


def _move(copy: Copy, moved: Row, by: int) -> None:
    copy.write(
        "offsets",
        [row | {"committed": row["committed"] + by} if row == moved else row for row in copy.rows("offsets")],
    )


def move_an_offset_back(copy: Copy) -> None:
    """By one: the next transaction of the group covers that input."""
    _move(copy, _commit_of_many(copy), -1)


def move_an_offset_forward(copy: Copy) -> None:
    """By one: it covers an input of the next transaction."""
    _move(copy, _commit_of_many(copy), 1)


def _last_commit(copy: Copy) -> Row:
    """The last of its group for a partition, just above an input: the group has processed all that stands there."""
    there = _inputs(copy)
    last = [own[-1] for own in _commits(copy) if (own[-1]["tp"], own[-1]["committed"] - 1) in there]
    return next(row for row in last if (row["tp"], row["committed"]) not in there)


def move_the_last_offset_of_a_partition_back(copy: Copy) -> None:
    _move(copy, _last_commit(copy), -1)


def move_the_last_offset_of_a_partition_forward(copy: Copy) -> None:
    """By one: above a marker, or at the end."""
    _move(copy, _last_commit(copy), 1)


def commit_beyond_the_end(copy: Copy) -> None:
    """Above all that stands in the partition."""
    _move(copy, _last_commit(copy), 1000)


def take_an_offset_commit_out_of_the_log(copy: Copy) -> None:
    """With its batch, if that holds no other; else with the place that it had in it."""
    gone = _commit_of_many(copy)
    rows, at = [], (gone["log_tp"], gone["log_offset"])
    for row in copy.rows("batches"):
        if row["tp"] == at[0] and row["base_offset"] <= at[1] <= row["last_offset"]:
            lower = row | {"last_offset": at[1] - 1, "count": at[1] - row["base_offset"]}
            upper = row | {"base_offset": at[1] + 1, "count": row["last_offset"] - at[1]}
            rows += [part for part in (lower, upper) if part["count"]]
        else:
            rows.append(row)
    copy.write("batches", rows)
    copy.write("offsets", [row for row in copy.rows("offsets") if row != gone])
