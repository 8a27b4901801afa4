"""Check that the stored logs are whole: to their ends, on every promised replica, and in the tables made from them.

If the tables made from Kafka's internal topics lack a decided transaction or an offset commit, a checker would conclude
that it never happened. If a replica is stored only in part, replicas cannot be compared.
"""

from collections import defaultdict
from collections.abc import Mapping

from checkers.checking.run_facts import EvidenceCounts, MissingEvidence
from checkers.stored.broker_log import TRANSACTIONS_TOPIC
from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.sources import StoredRun
from checkers.stored.tally import Row
from harness.model.promises import Promises
from harness.results.wording import plural


def check_log_ends(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Note the leaders' logs whose batches end below the log end. A marker may be missing there."""
    for row in facts.replicas:
        end, start, reached = row.get("log_end"), row.get("log_start", 0), row.get("reached", 0)
        if (
            row["leader"]
            and row.get("damaged") is None
            and end is not None
            and end > start
            and reached != end
        ):
            name = facts.name(row["tp"])
            words = f"the table batches has {name} up to offset {reached}, and the table replicas up to {end}"
            missing.add_contradiction(f"end of the log of {name}", words, "batches", "replicas")


def check_replicas(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Note the replicas whose logs are not complete, by broker and kind of gap.

    A damaged replica is noted by `checkers.checking.completeness`.
    """
    marks: dict[int, int] = {}
    starts = {row["tp"]: row.get("log_start", 0) for row in facts.replicas if row["leader"]}
    topics: dict[int, set[str]] = defaultdict(set)
    for row in facts.replicas:
        marks[row["tp"]] = max(row.get("high_watermark", 0), marks.get(row["tp"], 0))
        topics[row["tp"]].add(str(row.get("topic_id")))
    gaps: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in sorted(facts.replicas, key=lambda replica: (replica["tp"], replica["broker"])):
        if row.get("damaged") is None and (gap := _gap(facts.name(row["tp"]), row, marks, starts)):
            kind, words = gap
            gaps[kind, row["broker"]].append(words)
    for (kind, broker), sentences in gaps.items():
        others = (
            f", and so do {plural(len(sentences) - 1, 'other replica')} there" if len(sentences) > 1 else ""
        )
        missing.add(f"{kind} on broker {broker}", f"on broker {broker} {sentences[0]}{others}", "replicas")
    for tp, ids in sorted(topics.items()):
        if len(ids) > 1:
            words = f"the replicas of {facts.name(tp)} have {plural(len(ids), 'topic id')}, so one is of another topic"
            missing.add(f"topic id of {facts.name(tp)}", words, "replicas")


def _gap(name: str, row: Row, marks: Mapping[int, int], starts: Mapping[int, int]) -> tuple[str, str] | None:
    """Return the kind of gap in one replica, and a sentence about it. None: the replica is complete."""
    start, end, reached = row.get("log_start", 0), row.get("log_end"), row.get("reached", 0)
    if row.get("high_watermark") is None:
        return "high watermarks", f"the replica of {name} has no high watermark"
    if end is None or (end > start and reached != end and not row["leader"]):
        return (
            "batches",
            f"the replica of {name} has batches up to offset {reached}, and its log ends at {end}",
        )
    if start > (leaders := starts.get(row["tp"], start)):
        return "log starts", f"the replica of {name} begins at offset {start}, and its leader's at {leaders}"
    if end < marks[row["tp"]]:
        return (
            "log ends",
            f"the replica of {name} ends at offset {end}, below the high watermark {marks[row['tp']]}",
        )
    return None


def check_transaction_log(facts: EvidenceCounts, promises: Promises, missing: MissingEvidence) -> None:
    """Note what the transaction log lacks of the transactions whose markers, records or offset commits are stored.

    Markers that repeat the one before them are not counted. On a shared cluster the markers in internal topics are not
    counted, because other users write them too.
    """
    for row in sorted(facts.markers, key=lambda marker: marker["tp"]):
        partition = facts.partitions.get(row["tp"])
        if partition is None or (partition["internal"] and not promises.replicas):
            continue
        name = facts.name(row["tp"])
        missing.add(
            "transactions",
            f"the transaction log lacks transactions that have markers in {name}: {plural(row['markers'], 'marker')} "
            f"of {plural(row['producers'], 'producer')} (for example producer id {row['producer_id']})",
            "transactions",
        )
    if doubtful := facts.numbers["doubtful_producers"]:
        missing.add(
            "repeated markers",
            f"the markers of {plural(doubtful, 'producer')} repeat the one before and contradict the transaction log: "
            "it is not known to which transactions they belong",
        )
    if merged := facts.numbers["merged"]:
        missing.add(
            "merged transactions",
            f"several operations wrote into one transaction of the transaction log: {plural(merged, 'transaction')}; "
            "the log lacks transactions, or requests arrived after their transactions had ended",
            "transactions",
        )


def check_internal_logs(facts: EvidenceCounts, run: StoredRun, missing: MissingEvidence) -> None:
    """Note what a table lacks of a log that is stored and not compacted.

    This is not checked on a shared cluster, where the tables have only the rows of the run.
    """
    if run.promises is not None and not run.promises.replicas:
        return
    for tp, row in sorted(facts.partitions.items()):
        if not row["logged"] or row["compacted"]:
            continue
        name = facts.name(tp)
        if row["topic"] == OFFSETS_TOPIC and row.get("unattributed_offsets"):
            missing.add(
                "offsets",
                f"the log of {name} holds {row['unattributed_offsets']} records of transactions "
                "that the table offsets lacks",
                "offsets",
            )
        expected, stored = row["log_end"] - row["log_start"], row.get("states", 0)
        if row["topic"] == TRANSACTIONS_TOPIC and stored != expected:
            missing.add(
                "transactions",
                f"the table transactions holds {stored} records of {name}, whose log goes from offset "
                f"{row['log_start']} to {row['log_end']}",
                "transactions",
            )
