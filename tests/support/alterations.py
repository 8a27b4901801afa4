"""What can be altered of a store so that one thing was read, sent, committed or added up wrong."""

import json
import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.schema import HISTORY, LOG

Row = dict[str, Any]


class Copy:
    """A copy of a store, whose tables can be rewritten."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rng = random.Random(1)

    def path(self, table: str) -> Path:
        room = "history" if table in HISTORY else "log"
        return self.folder / room / f"{table}.parquet"

    def rows(self, table: str) -> list[Row]:
        rows: list[Row] = pq.read_table(self.path(table)).to_pylist()
        return rows

    def write(self, table: str, rows: list[Row]) -> None:
        """As if the run had written these."""
        schema = (HISTORY | LOG)[table]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), self.path(table))
        facts = json.loads((self.folder / "metadata.json").read_text())
        facts["rows"][table] = len(rows)
        (self.folder / "metadata.json").write_text(json.dumps(facts))

    def renumber(self, table: str, run: int) -> None:
        """Have every row bear this run."""
        rows = pq.read_table(self.path(table))
        number = pa.repeat(pa.scalar(run, pa.int64()), len(rows))
        pq.write_table(rows.set_column(rows.schema.get_field_index("run"), "run", number), self.path(table))

    def tp(self, topic: str) -> set[int]:
        return {row["tp"] for row in self.rows("partitions") if row["topic"] == topic}

    def ops(self, f: str, outcome: str = "ok") -> dict[int, Row]:
        return {row["op"]: row for row in self.rows("ops") if row["f"] == f and row["outcome"] == outcome}

    def recount(self) -> None:
        """Each reader was given what its table now holds: what is taken from both was never read."""
        given = Counter((row["role"], row["tp"]) for row in self.rows("polls"))
        found = Counter(row["tp"] for row in self.rows("records"))
        ends = self.rows("ends")
        for row in ends:
            committed = row["isolation"] == "read_committed"
            row["read"] = given[row["role"], row["tp"]] if committed else found[row["tp"]]
        self.write("ends", ends)

    def observed(self) -> list[list[Row]]:
        """What an observer was given of one partition, poll by poll, from its second on: of the partition of which
        it was given most at once.
        """
        journals = {row["op"]: row["journal"] for row in self.rows("ops")}
        polls: dict[tuple[str, int], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows("polls"):
            if row["role"] == "observer":
                polls[journals[row["op"]], row["tp"]][row["op"]].append(row)
        found = [[sorted(of[op], key=lambda row: row["n"]) for op in sorted(of)][1:] for of in polls.values()]
        return max(found, key=lambda of: max(map(len, of), default=0))

    def committed_output(self, topic: str) -> Row:
        """One of the committed outputs of that topic."""
        records = self.committed_outputs(topic)
        return records[len(records) // 2]

    def committed_outputs(self, topic: str) -> list[Row]:
        """The records of that topic which were given to the final read-committed reader.

        Their writers were told that their transactions had committed, and wrote to several partitions.
        """
        given = {(row["tp"], row["offset"]) for row in self.rows("polls") if row["role"] == "final"}
        told = self.ops("txn")
        sends = [row for row in self.rows("sends") if row["op"] in told]
        reach: dict[int, set[int]] = {}
        for row in sends:
            reach.setdefault(row["op"], set()).add(row["tp"])
        values = {row["value"] for row in sends if len(reach[row["op"]]) > 1}
        tps = self.tp(topic)
        return [
            row
            for row in self.rows("records")
            if row["tp"] in tps and row["value"] in values and (row["tp"], row["offset"]) in given
        ]

    def neighbours(self, f: str, *, in_one_op: bool) -> tuple[Row, Row]:
        """Two acknowledged sends to one partition, the second next to the first."""
        told = self.ops(f)
        rows: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows("sends"):
            if row["op"] in told:
                rows.setdefault((told[row["op"]]["journal"], row["tp"]), []).append(row)
        return next(
            (one, other)
            for sends in rows.values()
            for one, other in pairwise(sorted(sends, key=lambda row: (row["op"], row["n"])))
            if (one["op"] == other["op"]) is in_one_op and one["output_name"] == other["output_name"]
            and (not one["inputs"] or one["inputs"][0]["tp"] == other["inputs"][0]["tp"])
        )  # fmt: skip


def take_away_the_end_of_a_transaction(copy: Copy) -> None:
    """An aborted batch, with others' committed records above it, is of a producer without any marker."""
    told = copy.ops("txn", "fail")
    sent = next(row for row in copy.rows("sends") if row["op"] in told and row["acked"])
    rows = copy.rows("batches")
    for row in rows:
        if row["tp"] == sent["tp"] and row["base_offset"] <= sent["offset"] <= row["last_offset"]:
            row["producer_id"] = 999_999
    copy.write("batches", rows)


def give_a_record_where_there_is_none(copy: Copy) -> None:
    """To an observer, at the place of a marker."""
    markers = {(row["tp"], row["base_offset"]) for row in copy.rows("batches") if row["control"]}
    last = next(poll[-1] for poll in copy.observed() if (poll[-1]["tp"], poll[-1]["offset"] + 1) in markers)
    more = last | {"n": 1_000_000, "offset": last["offset"] + 1, "value": "nobody:0:0"}
    copy.write("polls", [*copy.rows("polls"), more])


def tell_an_observer_another_value(copy: Copy) -> None:
    told = copy.observed()[0][0]
    rows = copy.rows("polls")
    rows[rows.index(told)]["value"] = "nobody:0:0"
    copy.write("polls", rows)


def give_a_transaction_its_own_record(copy: Copy) -> None:
    record = copy.committed_output("invoices")
    sent = next(row for row in copy.rows("sends") if row["value"] == record["value"])
    op = copy.ops("txn")[sent["op"]]
    poll = copy.rows("polls")[0] | {
        "op": sent["op"],
        "n": 0,
        "tp": sent["tp"],
        "offset": sent["offset"],
        "value": sent["value"],
        "role": "worker",
        "promised": "read_committed",
        "return_ns": op["return_ns"] + 10**10,
    }
    copy.write("polls", [*copy.rows("polls"), poll])


def _without(copy: Copy, gone: Row) -> None:
    copy.write("polls", [row for row in copy.rows("polls") if row != gone])


def skip_the_first_record_of_a_poll(copy: Copy) -> None:
    _without(copy, next(poll[0] for poll in copy.observed() if len(poll) > 1))


def skip_a_record_inside_a_poll(copy: Copy) -> None:
    _without(copy, next(poll[1] for poll in copy.observed() if len(poll) > 2))


def give_the_last_record_of_the_poll_before_again(copy: Copy) -> None:
    before, after = copy.observed()[:2]
    again = after[0] | {"n": -1, "offset": before[-1]["offset"], "value": before[-1]["value"]}
    copy.write("polls", [*copy.rows("polls"), again])


def give_a_record_twice_in_one_poll(copy: Copy) -> None:
    copy.write("polls", [*copy.rows("polls"), copy.observed()[0][0]])


def _swap(copy: Copy, table: str, one: Row, other: Row, *columns: str) -> None:
    rows = copy.rows(table)
    first, second = rows.index(one), rows.index(other)
    for column in columns:
        rows[first][column], rows[second][column] = other[column], one[column]
    copy.write(table, rows)


def send_in_another_order(copy: Copy) -> None:
    _swap(copy, "sends", *copy.neighbours("send", in_one_op=False), "op", "n")


def send_in_another_order_inside_an_operation(copy: Copy) -> None:
    _swap(copy, "sends", *copy.neighbours("txn", in_one_op=True), "n")


def begin_below_a_committed_offset(copy: Copy) -> None:
    """A worker is assigned a partition right after a commit of its own, and is given that input again."""
    told, ops = copy.ops("txn"), {row["op"]: row for row in copy.rows("ops")}
    polls = copy.rows("polls")
    for claim in copy.rows("claims"):
        committer = told.get(claim["op"])
        if committer is None:
            continue
        later = [
            row
            for row in polls
            if row["tp"] == claim["tp"]
            and row["op"] > claim["op"]
            and ops[row["op"]]["journal"] == committer["journal"]
            and row["offset"] >= claim["next"]
        ]
        before = [row for row in polls if row["tp"] == claim["tp"] and row["offset"] == claim["first"]]
        if later and before:
            after = min(later, key=lambda row: (row["op"], row["n"]))
            break
    else:
        raise AssertionError("no worker went on after a commit")
    again = after | {"n": -1, "offset": claim["first"], "value": before[0]["value"]}
    copy.write("polls", [*polls, again])
    assigned = {
        "run": claim["run"], "journal": committer["journal"], "process": committer["process"],
        "group": claim["group"], "time_ns": committer["return_ns"] + 1, "gained": True, "tp": claim["tp"],
    }  # fmt: skip
    copy.write("assignments", [*copy.rows("assignments"), assigned])


def claim_what_another_has_committed(copy: Copy) -> None:
    told = copy.ops("txn")
    rows = copy.rows("claims")
    claim = next(row for row in rows if row["op"] in told and row["first"] > 40)
    claim["first"] -= 30
    copy.write("claims", rows)


def lose_the_offsets_of_a_transaction(copy: Copy) -> None:
    told = copy.ops("txn")
    rows = copy.rows("offsets")
    lost = [row for row in rows if row["op"] in told][-1]["op"]
    copy.write("offsets", [row for row in rows if row["op"] != lost])
    gone = {(row["log_tp"], row["log_offset"]) for row in rows if row["op"] == lost}
    copy.write(
        "batches", [row for row in copy.rows("batches") if (row["tp"], row["base_offset"]) not in gone]
    )


def commit_beyond_what_was_given(copy: Copy) -> None:
    """The last input of a transaction was not given to its worker."""
    told = copy.ops("txn")
    given: dict[tuple[int, int], list[Row]] = {}
    for row in copy.rows("polls"):
        if row["role"] == "worker":
            given.setdefault((row["tp"], row["offset"]), []).append(row)
    gone = next(
        once[0]
        for row in copy.rows("claims")
        if row["op"] in told and row["next"] - row["first"] > 5
        for once in [given[row["tp"], row["next"] - 1]]
        if len(once) == 1
    )
    _without(copy, gone)


def add_up_wrong(copy: Copy) -> None:
    """Two inputs add 3 and 4 to a key, and its last sum says 4."""
    record = copy.committed_output("payments")
    rows = copy.rows("records")
    rows[rows.index(record)] |= {"key": "sum of two", "state": 4}
    copy.write("records", rows)
    expected = copy.rows("expected")
    due = [row for row in expected if row["output_name"] == "payment"][:2]
    added = [
        row | {"output_name": None, "digest": None, "key": "sum of two", "adds": adds}
        for row, adds in zip(due, (3, 4), strict=True)
    ]
    copy.write("expected", [*expected, *added])
    ends = copy.rows("ends")
    for row in ends:
        if row["expected"] is not None:
            row["expected"] += sum(one["tp"] == row["tp"] for one in added)
    copy.write("ends", ends)


def put_outputs_in_another_order(copy: Copy) -> None:
    """Two outputs of one key and transaction change places, with all that says so."""
    one, other = copy.neighbours("txn", in_one_op=True)
    _swap(copy, "sends", one, other, "inputs", "digest")
    rows = copy.rows("records")
    places = {(row["tp"], row["offset"]): row for row in rows}
    first, second = (places[row["tp"], row["offset"]] for row in (one, other))
    _swap(copy, "records", first, second, "inputs", "digest")
    rows = copy.rows("records")
    for row in rows:
        if row["value"] in (one["value"], other["value"]):
            row["key"] = "one key"
    copy.write("records", rows)
    copy.write("stages", [row | {"ordered": True} for row in copy.rows("stages")])


ONE_BY_ONE = (
    (lose_the_offsets_of_a_transaction, {"lost-commit"}, {"lost-input", "offset-output-mismatch"}),
    (
        take_away_the_end_of_a_transaction,
        {"read-above-lso", "hanging-transaction"},
        {"torn-transaction", "dirty-read", "sequence-violation", "unmarked-partition"},
    ),
    (give_a_record_where_there_is_none, {"vanished"}, set()),
    (tell_an_observer_another_value, {"inconsistent-offsets"}, set()),
    (give_a_transaction_its_own_record, {"precommitted-read"}, set()),
    (skip_the_first_record_of_a_poll, {"poll-skip"}, set()),
    (skip_a_record_inside_a_poll, {"int-poll-skip"}, set()),
    (give_the_last_record_of_the_poll_before_again, {"nonmonotonic-poll"}, set()),
    (give_a_record_twice_in_one_poll, {"int-nonmonotonic-poll"}, set()),
    (send_in_another_order, {"nonmonotonic-send"}, {"int-nonmonotonic-send"}),
    (send_in_another_order_inside_an_operation, {"int-nonmonotonic-send"}, set()),
    (begin_below_a_committed_offset, {"stale-offset"}, set()),
    (claim_what_another_has_committed, {"overlapping-commit"}, {"offset-output-mismatch"}),
    (commit_beyond_what_was_given, {"premature-offset"}, {"poll-skip"}),
    (add_up_wrong, {"aggregate-mismatch"}, set()),
    (put_outputs_in_another_order, {"order-violation"}, set()),
)
"""Each with what must be found, and what may follow from it."""
