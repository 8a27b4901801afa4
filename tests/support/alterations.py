"""Alterations of a store: one record is read, sent, committed or summed incorrectly."""

import json
import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.schema import HISTORY, LOG
from tests.support.altered_log import take_out

Row = dict[str, Any]


class Copy:
    """A copy of a store. Its tables can be rewritten."""

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
        """Replace the rows of a table, and their number in the run metadata."""
        schema = (HISTORY | LOG)[table]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), self.path(table))
        metadata = json.loads((self.folder / "metadata.json").read_text())
        metadata["rows"][table] = len(rows)
        (self.folder / "metadata.json").write_text(json.dumps(metadata))

    def renumber(self, table: str, run: int) -> None:
        """Set the column `run` of every row."""
        rows = pq.read_table(self.path(table))
        number = pa.repeat(pa.scalar(run, pa.int64()), len(rows))
        pq.write_table(rows.set_column(rows.schema.get_field_index("run"), "run", number), self.path(table))

    def tp(self, topic: str) -> set[int]:
        return {row["tp"] for row in self.rows("partitions") if row["topic"] == topic}

    def ops(self, f: str, outcome: str = "ok") -> dict[int, Row]:
        return {row["op"]: row for row in self.rows("ops") if row["f"] == f and row["outcome"] == outcome}

    def recount(self) -> None:
        """Set the number of records that each reader read to the rows that its table now has."""
        polls = Counter((row["role"], row["tp"]) for row in self.rows("polls"))
        records = Counter(row["tp"] for row in self.rows("records"))
        ends = self.rows("ends")
        for row in ends:
            committed = row["isolation"] == "read_committed"
            row["read"] = polls[row["role"], row["tp"]] if committed else records[row["tp"]]
        self.write("ends", ends)
        self._number_again()

    def _number_again(self) -> None:
        """Number the rows of each operation and input again, and count the rows of each journal, as a run does."""
        journal_of = {row["op"]: row["journal"] for row in self.rows("ops")}
        counts: dict[str, Counter[str]] = {}
        for table in ("polls", "sends", "claims", "assignments"):
            rows = self.rows(table)
            if table in ("polls", "sends"):
                numbers: Counter[int] = Counter()
                for row in sorted(rows, key=lambda row: (row["op"], row["n"])):
                    row["n"] = numbers[row["op"]]
                    numbers[row["op"]] += 1
                self.write(table, rows)
            counts[table] = Counter(row.get("journal") or journal_of.get(row.get("op")) for row in rows)
        inputs: Counter[tuple[int, int]] = Counter()
        expected = self.rows("expected")
        for row in expected:
            row["n"] = inputs[row["tp"], row["offset"]]
            inputs[row["tp"], row["offset"]] += 1
        self.write("expected", expected)
        journals = self.rows("journals")
        self.write(
            "journals",
            [row | {table: count[row["journal"]] for table, count in counts.items()} for row in journals],
        )

    def observed(self) -> list[list[Row]]:
        """The polls of an observer of one partition, without its first poll. Each poll is a list of rows.

        The observer and partition are those with the largest poll.
        """
        journals = {row["op"]: row["journal"] for row in self.rows("ops")}
        polls: dict[tuple[str, int], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows("polls"):
            if row["role"] == "observer":
                polls[journals[row["op"]], row["tp"]][row["op"]].append(row)
        ordered = [
            [sorted(by_op[op], key=lambda row: row["n"]) for op in sorted(by_op)][1:]
            for by_op in polls.values()
        ]
        return max(ordered, key=lambda batches: max(map(len, batches), default=0))

    def committed_output(self, topic: str) -> Row:
        """One of the committed outputs of a topic."""
        records = self.committed_outputs(topic)
        return records[len(records) // 2]

    def committed_outputs(self, topic: str) -> list[Row]:
        """The records of a topic that the final read-committed reader read.

        Only records of transactions with outcome ok that wrote to several partitions.
        """
        read = {(row["tp"], row["offset"]) for row in self.rows("polls") if row["role"] == "final"}
        ok_ops = self.ops("txn")
        sends = [row for row in self.rows("sends") if row["op"] in ok_ops]
        partitions: dict[int, set[int]] = {}
        for row in sends:
            partitions.setdefault(row["op"], set()).add(row["tp"])
        values = {row["value"] for row in sends if len(partitions[row["op"]]) > 1}
        tps = self.tp(topic)
        return [
            row
            for row in self.rows("records")
            if row["tp"] in tps and row["value"] in values and (row["tp"], row["offset"]) in read
        ]

    def neighbours(self, f: str, *, in_one_op: bool) -> tuple[Row, Row]:
        """Two successive acknowledged sends of a process to one partition."""
        ops = self.ops(f)
        rows: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows("sends"):
            if row["op"] in ops:
                rows.setdefault((ops[row["op"]]["journal"], row["tp"]), []).append(row)
        return next(
            (first, second)
            for sends in rows.values()
            for first, second in pairwise(sorted(sends, key=lambda row: (row["op"], row["n"])))
            if (first["op"] == second["op"]) is in_one_op and first["output_name"] == second["output_name"]
            and (not first["inputs"] or first["inputs"][0]["tp"] == second["inputs"][0]["tp"])
        )  # fmt: skip


def remove_the_end_of_a_transaction(copy: Copy) -> None:
    """Give an aborted batch the id of a producer without markers. Committed records of others are above it."""
    aborted = copy.ops("txn", "fail")
    sent = next(row for row in copy.rows("sends") if row["op"] in aborted and row["acked"])
    rows = copy.rows("batches")
    for row in rows:
        if row["tp"] == sent["tp"] and row["base_offset"] <= sent["offset"] <= row["last_offset"]:
            row["producer_id"] = 999_999
    copy.write("batches", rows)


def deliver_a_record_at_a_marker(copy: Copy) -> None:
    """Deliver a record to an observer at the offset of a marker."""
    markers = {(row["tp"], row["base_offset"]) for row in copy.rows("batches") if row["control"]}
    last = next(poll[-1] for poll in copy.observed() if (poll[-1]["tp"], poll[-1]["offset"] + 1) in markers)
    more = last | {"n": 1_000_000, "offset": last["offset"] + 1, "value": "unknown:0:0"}
    copy.write("polls", [*copy.rows("polls"), more])


def deliver_another_value(copy: Copy) -> None:
    """Change the value of a record that an observer read."""
    delivered = copy.observed()[0][0]
    rows = copy.rows("polls")
    rows[rows.index(delivered)]["value"] = "unknown:0:0"
    copy.write("polls", rows)


def deliver_its_own_record_to_a_transaction(copy: Copy) -> None:
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


def _remove_from_polls(copy: Copy, removed: Row) -> None:
    copy.write("polls", [row for row in copy.rows("polls") if row != removed])


def skip_the_first_record_of_a_poll(copy: Copy) -> None:
    _remove_from_polls(copy, next(poll[0] for poll in copy.observed() if len(poll) > 1))


def skip_a_record_inside_a_poll(copy: Copy) -> None:
    _remove_from_polls(copy, next(poll[1] for poll in copy.observed() if len(poll) > 2))


def repeat_the_last_record_of_the_poll_before(copy: Copy) -> None:
    before, after = copy.observed()[:2]
    again = after[0] | {"n": -1, "offset": before[-1]["offset"], "value": before[-1]["value"]}
    copy.write("polls", [*copy.rows("polls"), again])


def deliver_a_record_twice_in_one_poll(copy: Copy) -> None:
    copy.write("polls", [*copy.rows("polls"), copy.observed()[0][0]])


def _swap(copy: Copy, table: str, first: Row, second: Row, *columns: str) -> None:
    rows = copy.rows(table)
    m, n = rows.index(first), rows.index(second)
    for column in columns:
        rows[m][column], rows[n][column] = second[column], first[column]
    copy.write(table, rows)


def send_in_another_order(copy: Copy) -> None:
    """Swap the operations that sent two inputs. Each record has the name of the other attempt."""
    first, second = copy.neighbours("send", in_one_op=False)
    _swap(copy, "sends", first, second, "op", "n", "value")
    names = {first["value"]: second["value"], second["value"]: first["value"]}
    for table in ("records", "polls"):
        rows = copy.rows(table)
        copy.write(table, [row | {"value": names.get(row["value"], row["value"])} for row in rows])


def send_in_another_order_inside_an_operation(copy: Copy) -> None:
    _swap(copy, "sends", *copy.neighbours("txn", in_one_op=True), "n")


def begin_below_a_committed_offset(copy: Copy) -> None:
    """Assign a partition to a worker directly after its commit, and deliver a committed input to it again."""
    ok_ops, ops = copy.ops("txn"), {row["op"]: row for row in copy.rows("ops")}
    polls = copy.rows("polls")
    for claim in copy.rows("claims"):
        committer = ok_ops.get(claim["op"])
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


def claim_committed_inputs_again(copy: Copy) -> None:
    """Extend a claim back over inputs that another transaction committed."""
    ok_ops = copy.ops("txn")
    rows = copy.rows("claims")
    claim = next(row for row in rows if row["op"] in ok_ops and row["first"] > 40)
    claim["first"] -= 30
    copy.write("claims", rows)


def remove_the_offsets_of_a_transaction(copy: Copy) -> None:
    ok_ops = copy.ops("txn")
    rows = copy.rows("offsets")
    op = [row for row in rows if row["op"] in ok_ops][-1]["op"]
    for position in sorted(
        ((row["log_tp"], row["log_offset"]) for row in rows if row["op"] == op), reverse=True
    ):
        take_out(copy, *position)


def commit_an_input_that_was_not_delivered(copy: Copy) -> None:
    """Remove the delivery of a transaction's last input to its worker."""
    ok_ops = copy.ops("txn")
    deliveries: dict[tuple[int, int], list[Row]] = {}
    for row in copy.rows("polls"):
        if row["role"] == "worker":
            deliveries.setdefault((row["tp"], row["offset"]), []).append(row)
    removed = next(
        of_last[0]
        for row in copy.rows("claims")
        if row["op"] in ok_ops and row["next"] - row["first"] > 5
        for of_last in [deliveries[row["tp"], row["next"] - 1]]
        if len(of_last) == 1
    )
    _remove_from_polls(copy, removed)


def write_a_wrong_sum(copy: Copy) -> None:
    """Two inputs add 3 and 4 to a key, and its last sum is 4."""
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
            row["expected"] += sum(new["tp"] == row["tp"] for new in added)
    copy.write("ends", ends)


def swap_two_outputs(copy: Copy) -> None:
    """Swap two outputs of one key and one transaction, in the sends and in the log."""
    sends = copy.neighbours("txn", in_one_op=True)
    _swap(copy, "sends", *sends, "inputs", "digest")
    records = {(row["tp"], row["offset"]): row for row in copy.rows("records")}
    first, second = (records[row["tp"], row["offset"]] for row in sends)
    _swap(copy, "records", first, second, "inputs", "digest")
    rows = copy.rows("records")
    for row in rows:
        if row["value"] in [send["value"] for send in sends]:
            row["key"] = "one key"
    copy.write("records", rows)
    copy.write("stages", [row | {"ordered": True} for row in copy.rows("stages")])


CHANGES = (
    (remove_the_offsets_of_a_transaction, {"lost-commit"}, {"lost-input", "offset-output-mismatch"}),
    (
        remove_the_end_of_a_transaction,
        {"read-above-lso", "hanging-transaction"},
        {"torn-transaction", "dirty-read", "sequence-violation", "unmarked-partition"},
    ),
    (deliver_a_record_at_a_marker, {"vanished"}, set()),
    (deliver_another_value, {"inconsistent-offsets"}, set()),
    (deliver_its_own_record_to_a_transaction, {"precommitted-read"}, set()),
    (skip_the_first_record_of_a_poll, {"poll-skip"}, set()),
    (skip_a_record_inside_a_poll, {"int-poll-skip"}, set()),
    (repeat_the_last_record_of_the_poll_before, {"nonmonotonic-poll"}, set()),
    (deliver_a_record_twice_in_one_poll, {"int-nonmonotonic-poll"}, set()),
    (send_in_another_order, {"nonmonotonic-send"}, {"int-nonmonotonic-send"}),
    (send_in_another_order_inside_an_operation, {"int-nonmonotonic-send"}, set()),
    (begin_below_a_committed_offset, {"stale-offset"}, set()),
    (claim_committed_inputs_again, {"overlapping-commit"}, {"offset-output-mismatch"}),
    (commit_an_input_that_was_not_delivered, {"premature-offset"}, {"poll-skip"}),
    (write_a_wrong_sum, {"aggregate-mismatch"}, set()),
    (swap_two_outputs, {"order-violation"}, set()),
)
"""Each alteration with the anomalies that must be found, and those that may be found besides."""
