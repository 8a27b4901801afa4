"""The definition of a run's counts (`stats` and `coverage`), of its unchecked anomalies and its missing evidence."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from harness.results.verdict import CheckResult
from tests.support.histories import TRANSACTIONS, History
from tests.support.stored_tables import OFFSETS, RC, Row, topic_partition

GRAPHS = ("G0", "G1c", "G1c-ww", "G-single", "G2")
NEEDING: dict[str, set[str]] = {
    "log": {
        *("lost-commit", "ghost-commit", "offset-output-mismatch"),
        *("hanging-transaction", "unmarked-partition", "dirty-read", "read-above-lso"),
        *("epoch-regression", "sequence-violation", "replica-divergence", "stalled"),
    },
    "offsets": {"group-offset-regression", "overlapping-commit", "stalled"},
    "offsets-within": {"overlapping-commit"},
    "transactions": {
        *("hanging-transaction", "unmarked-partition", "transaction-state-violation"),
        *("stuck-completion", "undue-fencing", "stalled"),
    },
    "replicas": {"replica-divergence"},
    "group-offsets": {"lost-input", "aggregate-mismatch"},
    "healed": {"stalled"},
    "expected": {"lost-input"},
    "order": {"order-violation"},
    "aggregate": {"aggregate-mismatch"},
    "another kind of history": {
        "int-send-skip",
        *(f"{graph}{kin}" for graph in GRAPHS for kin in ("", "-process", "-realtime")),
    },
}
"""By kind of evidence, the anomalies that need it. The list does not come from the checkers, so it can disagree."""
PREMISED: dict[str, set[str]] = {
    "leader-always": {"stalled", "stuck-completion"},
    "no-late-bytes": {"hanging-transaction", "undue-fencing"},
    "one-clock": {"stuck-completion", "stalled"},
    "whole-logs": {
        *("lost-commit", "ghost-commit", "torn-transaction", "offset-output-mismatch"),
        *("hanging-transaction", "zombie-write", "epoch-regression", "sequence-violation"),
        *("transaction-state-violation", "stuck-completion", "unmarked-partition", "replica-divergence"),
        *("undue-fencing", "stalled", "lost-write", "inconsistent-offsets", "aborted-read", "dirty-read"),
        *("read-above-lso", "vanished", "unseen", "phantom", "reprocessed-input", "lost-input"),
        *("group-offset-regression", "stale-offset", "overlapping-commit", "aggregate-mismatch"),
        *("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
    },
}
"""By premise, the anomalies that are not checked if a run breaks it."""

CLAUSES = {
    "lost-commit by offsets",  # see case_offsets
    *("order-violation of outputs without a key", "order-violation where a topic grew"),  # see case_order
    "order-violation of intermediate records",
}
"""Parts of checks, whose conditions this definition does not know: the named cases do."""
Position = tuple[int, int]
"""Partition and offset."""
ProducerPartition = tuple[int, int]
"""Partition and producer id."""


def differs(history: History, result: CheckResult, *, log: bool = True, whole: bool = False) -> str | None:
    """Describe the first difference between a result and the definition; None if there is none.

    Args:
        history: The run.
        result: The result of its check.
        log: Whether the check had the tables of the brokers' logs.
        whole: Compare the missing evidence too. No records may be removed from the run.
    """
    counted = Counted(history.built, log=log)
    said, meant = {**result.stats, **result.coverage}, counted.figures()
    if said != meant:
        return f"{said} are counted, not {meant}"
    needs = counted.needs() | (set() if history.healed else {"healed"})
    unchecked = {name for need in needs for name in NEEDING[need]}
    unchecked |= {name for premise in history.broken_premises for name in PREMISED[premise]}
    drift = history.clock_drift_ms
    apart = drift is None or math.isnan(drift) or drift > 25 or history.wall_ms is None
    if (apart or "one-clock" in history.broken_premises) and "dirty-read" not in unchecked:
        unchecked.add("dirty-read by time")
    unchecked |= result.not_checked.keys() & CLAUSES
    contradictory = any(reason.code == "contradictory-evidence" for reason in result.broken.values())
    if result.not_checked.keys() != unchecked and not contradictory:
        return f"{sorted(result.not_checked)} is not checked, not {sorted(unchecked)}"
    broken = stuck(history) | counted.lacking() | counted.edges()
    if whole and result.broken.keys() != broken:
        return f"{result.broken} is broken, not {sorted(broken)}"
    return None


def stuck(history: History) -> set[str]:
    """The read-committed final reads that do not reach the end, because a record of the partition is open."""
    open_in = [topic for topic in history.topics if "open" in history.fates(topic)]
    topic_partitions = [topic_partition(history, topic) for topic in open_in if not topic.startswith("__")]
    return {f"final {RC} read of {topic}/{partition}" for topic, partition in topic_partitions}


class Counted:
    """The tables of one run, by partition and offset."""

    def __init__(self, rows: dict[str, list[Row]], *, log: bool) -> None:
        self._rows, self._log = rows, log
        self._topics = {row["tp"]: row["topic"] for row in rows["partitions"]}
        leaders = [row for row in rows["replicas"] if log and row["leader"] and row["damaged"] is None]
        self._leaders = {row["tp"]: row for row in leaders if row["tp"] in self._topics}
        self._marks = {tp: row["high_watermark"] for tp, row in self._leaders.items()}
        self._records = {at(row): row for row in rows["records"] if row["tp"] in self._topics}
        final = [row for row in rows["polls"] if row["role"] == "final"]
        self._given = {at(row) for row in final if row["tp"] in self._topics}
        led = [row for row in rows["batches"] if row["leader"] and row["tp"] in self._marks]
        self._fates = dict(_fates(led))

    def figures(self) -> dict[str, int]:
        """The counts by their keys in `verdict.json`."""
        ops = [op for op in self._rows["ops"] if op["f"] != "init"]
        ends = [self._end(op) for op in ops if op["f"] == "txn"]
        inputs = {row["in_topic"] for row in self._rows["stages"]}
        visible = [(position, self._records.get(position, {})) for position in {*self._fates, *self._given}]
        visible = [(position, record) for position, record in visible if self._visible(position)]
        return {
            "ops": len(ops),
            **{outcome: sum(op["outcome"] == outcome for op in ops) for outcome in ("ok", "fail", "info")},
            **{
                f"info_{end}": sum(
                    op["outcome"] == "info" and self._end(op) == end for op in ops if op["f"] == "txn"
                )
                for end in ("committed", "aborted", "open")
            },
            "inputs": sum(self._topics[tp] in inputs and not r.get("sentinel") for (tp, _), r in visible),
            "outputs": sum(bool(record.get("inputs")) for _, record in visible),
            "committed": ends.count("committed"),
            "aborted": ends.count("aborted"),
            "fenced": sum(op["fenced"] for op in ops),
        }

    def needs(self) -> set[str]:
        """The kinds of evidence that the run lacks. Every stored run lacks that of an external history."""
        logged = {self._topics[tp] for tp in self._marks}
        unlogged = {topic for tp, topic in self._topics.items() if tp not in self._marks}
        followers = [row for row in self._rows["replicas"] if self._log and not row["leader"]]
        expected = self._rows["expected"]
        there = {
            "log": any(not topic.startswith("__") for topic in logged),
            "offsets": OFFSETS in logged,
            "offsets-within": self._log and any(row["transactional"] for row in self._rows["offsets"]),
            "transactions": TRANSACTIONS in logged - unlogged,
            "replicas": any(row["tp"] in self._topics for row in followers),
            "group-offsets": all(
                row["group"] is not None or row.get("positions") == "each" for row in self._rows["stages"]
            ),
            "expected": any(row.get("adds") is None for row in expected),
            "order": any(row["ordered"] for row in self._rows["stages"]),
            "aggregate": any(row.get("adds") is not None for row in expected),
        }
        return {"another kind of history", *(need for need, is_there in there.items() if not is_there)}

    def lacking(self) -> set[str]:
        """Events that did not happen, and events that happened but are missing in the logs."""
        ops, claiming = self._rows["ops"], {row["op"] for row in self._rows["claims"]}
        did = [op for op in ops if op["stage"] and op["f"] not in ("poll", "init")]
        lacks = {
            "sends": not self._rows["sends"] and not all(r["sentinel"] for r in self._records.values()),
            "nothing read": all(self._records.get(position, {}).get("sentinel") for position in self._given),
            "no inputs": not self.figures()["inputs"],
            "nothing consumed": not any(row["role"] == "worker" for row in self._rows["polls"]),
            "nothing committed": not any(self._end(op) == "committed" for op in did),
            "offsets": self._log
            and not self._rows["offsets"]
            and any(_end_by_outcome(op) == "committed" for op in ops if op["op"] in claiming),
            "transactions": self._log
            and not self._rows["transactions"]
            and any(_end_by_outcome(op) == "committed" for op in ops if op["f"] == "txn"),
        }
        lacks["transactions"] |= self._log and self._unknown_markers()
        lacks["merged transactions"] = self._log and self._merged()
        return {name for name, it_lacks in lacks.items() if it_lacks}

    def _unknown_markers(self) -> bool:
        """Whether a producer has more markers in a partition than transactions that list it."""
        ended: Counter[ProducerPartition] = Counter()
        before: dict[str, Row] = {}
        rows = sorted(self._rows["transactions"], key=lambda row: row["log_offset"])
        for row in rows:
            last = before.get(row["transactional_id"])
            if row["state"] in ("CompleteCommit", "CompleteAbort") and last is not None and last["tps"]:
                ended.update((tp, last["producer_id"]) for tp in last["tps"])
            before[row["transactional_id"]] = row
        for row in before.values():
            if row["state"] in ("PrepareCommit", "PrepareAbort"):
                ended.update((tp, row["producer_id"]) for tp in row["tps"])
        return any(len(own) > ended[key] for key, own in self._markers().items())

    def _markers(self) -> dict[ProducerPartition, list[int]]:
        """The offsets of markers by partition and producer id, without those that repeat the marker before."""
        found: dict[ProducerPartition, list[int]] = {}
        before: dict[ProducerPartition, tuple[str | None, int]] = {}
        for row in sorted(self._rows["batches"], key=lambda row: row["base_offset"]):
            key, marker = (row["tp"], row["producer_id"]), (row["marker"], row["epoch"])
            if row["leader"] and row["control"] and row["tp"] in self._marks and before.get(key) != marker:
                found.setdefault(key, []).append(row["base_offset"])
            if row["leader"]:
                before[key] = marker
        return found

    def _merged(self) -> bool:
        """Whether one marker ends records of several operations."""
        producers = {
            (row["tp"], offset): row["producer_id"]
            for row in self._rows["batches"]
            if row["leader"] and not row["control"]
            for offset in range(row["base_offset"], row["last_offset"] + 1)
        }
        written = [(at(row), row["op"]) for row in self._rows["sends"] if row["offset"] is not None]
        written += [((row["log_tp"], row["log_offset"]), row["op"]) for row in self._rows["offsets"]]
        markers, ops = self._markers(), {}
        for (tp, offset), op in written:
            pid = producers.get((tp, offset))
            above = [marker for marker in markers.get((tp, pid), ()) if marker > offset]
            if above and op is not None:
                ops.setdefault((tp, above[0]), set()).add(op)
        return any(len(several) > 1 for several in ops.values())

    def edges(self) -> set[str]:
        """The partitions that are not whole, so that a missing record proves nothing."""
        starts = {row["tp"] for row in self._rows["ends"] if row["first"]}
        starts |= {tp for tp, row in self._leaders.items() if row["log_start"]}
        data = [row for row in self._rows["partitions"] if not row["internal"]]
        cut = [
            row
            for row in data
            if (row["compacted"] and not self._has_every_offset(row["tp"])) or row["tp"] in starts
        ]
        return {f"edges of {row['topic']}/{row['partition']}" for row in cut}

    def _has_every_offset(self, tp: int) -> bool:
        """Whether the leader's log has a record or a marker at each offset, so that no record was compacted."""
        batches = [row for row in self._rows["batches"] if row["leader"] and row["tp"] == tp]
        end = max((row["last_offset"] + 1 for row in batches), default=0)
        return self._log and sum(row["count"] for row in batches) == end > 0

    def _visible(self, position: Position) -> bool:
        """Whether a record is visible: by the log, or if there is none, by the reads of the final reader."""
        tp, offset = position
        if tp not in self._marks:
            return position in self._given
        below = self._marks[tp] is None or offset < self._marks[tp]
        return below and self._fates.get(position) in ("commit", "plain")

    def _end(self, op: Row) -> str:
        """The end of a transaction: by its outcome, or else by the logs, or else by the final reader."""
        if op["outcome"] != "info":
            return _end_by_outcome(op)
        positions = [
            position for send in self._rows["sends"] if send["op"] == op["op"] for position in self._of(send)
        ]
        commits = [
            (row["log_tp"], row["log_offset"]) for row in self._rows["offsets"] if row["op"] == op["op"]
        ]
        fates = {self._fates.get(position) for position in (*positions, *commits)}
        if fates & {"commit", "plain"}:
            return "committed"
        if fates & {"abort", "open"}:
            return "aborted" if "abort" in fates else "open"
        given = any(position in self._given and position[0] not in self._marks for position in positions)
        return "committed" if given else "unknown"

    def _of(self, send: Row) -> list[Position]:
        """The acknowledged offset of a record, unless another record is there, or the offsets where it was found."""
        if send["acked"] and None not in at(send) and send["offset"] >= 0:
            there = self._records.get(at(send))
            return [at(send)] if there is None or there["value"] == send["value"] else []
        return [position for position, record in self._records.items() if record["value"] == send["value"]]


def _end_by_outcome(op: Row) -> str:
    """The end of a transaction by its outcome."""
    if op["outcome"] == "ok":
        return "aborted" if op["asked"] == "abort" else "committed"
    return "aborted" if op["outcome"] == "fail" else "unknown"


def at(row: Row) -> Position:
    return row["tp"], row["offset"]


def _fates(batches: Iterable[Row]) -> Iterator[tuple[Position, str]]:
    """The fate of each record by partition and offset: the type of its producer's next marker."""
    marked: dict[tuple[int, int], str] = {}
    for row in sorted(batches, key=lambda row: -row["base_offset"]):
        producer = row["tp"], row["producer_id"]
        if row["control"]:
            marked[producer] = row["marker"]
            continue
        fate = marked.get(producer, "open") if row["transactional"] else "plain"
        for offset in range(row["base_offset"], row["last_offset"] + 1):
            yield (row["tp"], offset), fate
