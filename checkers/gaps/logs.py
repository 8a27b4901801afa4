"""Gaps in the stored logs of brokers: their ends, their replicas, and the tables that are made from internal topics.

If the tables made from Kafka's internal topics lack a decided transaction or an offset commit, a checker would conclude
that it never happened. If a replica is stored only in part, replicas cannot be compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from checkers.gaps.rule import GapRule, Row, RunEvidence, once
from checkers.registry import COMPLETE_PARTITIONS
from harness.common.wording import plural
from harness.model.promises import FETCH, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.model.vocabulary import Isolation
from harness.results.reasons import NO_OFFSETS_WITHIN, ReasonCode

CONTRADICTORY = ReasonCode.CONTRADICTORY_EVIDENCE
LOGS_CUT = ("several-logs-end-early", "log-ends-early")
"""The rules about a table of batches that lacks the end of a log."""
STILL_WRITING = (
    "write a longer idle_s in the [[stage]] that writes there, or let [stage.progress] print its progress"
)


def _missing_logs(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the promised logs that are not stored. `log`: the internal topic, or empty for the pipeline's topics."""
    run = evidence.run
    internal = [topic for topic in evidence.promises.internal_logs if topic not in run.refused_logs]
    for topic in (None, *internal) if run.had_log else ():
        if not (run.has_log and evidence.facts.logs(topic)):
            yield {"log": topic or "", "topics": topic or "the pipeline's topics"}


def _leaders(evidence: RunEvidence) -> dict[int, int]:
    """Return how many replicas of each partition are leaders."""
    return Counter(row["tp"] for row in evidence.facts.replicas if row["leader"])


def _replicas(evidence: RunEvidence) -> Iterator[Row]:
    for row in evidence.facts.replicas:
        yield {**row, "partition": evidence.facts.name(row["tp"])}


def _edges(evidence: RunEvidence) -> Iterator[Row]:
    """Yield where the log of each partition of the pipeline begins, and how far it was read."""
    for row in evidence.pipeline_partitions:
        mark, end, following = (row.get(edge) or 0 for edge in ("high_watermark", "log_end", "rc_next"))
        start = max(row.get("rc_first") or 0, row.get("ru_first") or 0)
        # A sum is checked by the last record of its key, which the log cleaner keeps.
        kept = row["compacted"] and row["sums_alone"]
        agrees = not row["logged"] or row.get("high_watermark") is None or following <= mark <= end
        yield {
            "partition": row["name"],
            "compacted": row["compacted"],
            "kept": kept,
            "start": start,
            "high_watermark": mark,
            "log_end": end,
            "next": following,
            "agrees": agrees,
        }


STORED: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "logs-missing",
        _missing_logs,
        "the run stored the logs of {topics}, and they are missing",
        subject="log of {topics}",
        tables=("batches", "replicas"),
        follows_from=("partitions-empty", ReasonCode.LOGS_NOT_READ),
    ),
    GapRule(
        "producer-ids-shared",
        once(lambda e: e.numbers["shared_producers"]),
        "the table transactions gives {count:producer id} to several transactional ids",
        subject="producer ids",
        tables=("transactions",),
        code=CONTRADICTORY,
    ),
    GapRule(
        "leaders-differ",
        _replicas,
        "the tables replicas and batches do not agree on the leader of {partition}",
        where=lambda row: not row["agrees"],
        subject="leaders",
        tables=("replicas", "batches"),
        code=CONTRADICTORY,
    ),
    GapRule(
        "several-leaders",
        lambda e: (
            {"partition": e.facts.name(tp), "leaders": count} for tp, count in sorted(_leaders(e).items())
        ),
        "the table replicas has {leaders} leaders of {partition}",
        where=lambda row: row["leaders"] > 1,
        subject="replicas",
        tables=("replicas", "batches"),
        code=CONTRADICTORY,
    ),
    GapRule(
        "topic-compacted",
        _edges,
        "{partition} is compacted: what is missing from it proves nothing",
        where=lambda row: row["compacted"] and not row["kept"],
        subject="edges of {partition}",
        tables=(COMPLETE_PARTITIONS,),
    ),
    GapRule(
        "log-begins-late",
        _edges,
        "the log of {partition} begins at offset {start}: earlier records are gone",
        where=lambda row: not row["compacted"] and row["start"] > 0,
        subject="edges of {partition}",
        tables=(COMPLETE_PARTITIONS,),
    ),
    GapRule(
        "high-watermark-differs",
        _edges,
        "the high watermark of {partition} is {high_watermark}, its log ends at {log_end}, and the final reader read "
        "up to offset {next}",
        where=lambda row: not row["compacted"] and row["start"] <= 0 and not row["agrees"],
        subject="edges of {partition}",
        tables=("replicas",),
    ),
)


def _logs(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the partitions that are in brokers, if logs are stored.

    Added columns: `partition` (its name), `journaled`, `any_leader` (false if there is a gap about the leaders of all),
    `isolation` (of the reader of all records), `left_out` (not all of its batches were stored on purpose), `is_known`
    (records at all missing offsets are known).
    """
    if not evidence.run.has_log:
        return
    several_leaders = any(count > 1 for count in _leaders(evidence).values())
    any_leader = any(row["logged"] for row in evidence.partitions) and not several_leaders
    for row in evidence.partitions:
        if row["topic"] in evidence.promises.tables:
            continue  # it is in a database and has no broker log
        # A run that fetches the logs stores only its own batches of internal topics. Others may write there, too.
        left_out = row["compacted"] or (evidence.promises.witness == FETCH and row["internal"])
        yield {
            **row,
            "partition": row["name"],
            "journaled": evidence.run.journaled,
            "any_leader": any_leader,
            "left_out": left_out,
            "is_known": row["holes"] <= row.get("known_to_be_gone", 0),
            "ru_next": row.get("ru_next"),
            "isolation": Isolation.READ_UNCOMMITTED.value,
        }


def _damaged_replicas(evidence: RunEvidence) -> Iterator[Row]:
    for row in _logs(evidence):
        if damaged := row.get("unreadable"):
            mark = damaged.get("high_watermark")
            yield {
                "partition": row["partition"],
                "broker": damaged.get("broker"),
                "end": damaged.get("log_end"),
                "high_watermark": "not known" if mark is None else mark,
            }


_HOLES = "the leader's log of {partition} lacks {holes:offset}, though nothing was compacted"
_BEYOND = (
    "the log of {partition} holds {beyond} records at or above offset {ru_next}, where the final read-uncommitted "
    "reader ended: they were written after "
)
LOGS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "no-leader",
        once(lambda e: e.run.has_log and e.partitions and not any(row["logged"] for row in e.partitions)),
        "the table replicas names no leader with a whole log",
        subject="replicas",
        tables=("replicas", "batches"),
    ),
    GapRule(
        "leader-log-missing",
        _logs,
        "the leader's log of {partition} is missing or damaged",
        where=lambda row: row["any_leader"] and not row["logged"],
        subject="log of {partition}",
        tables=("replicas",),
        follows_from=(ReasonCode.LOGS_NOT_READ,),
    ),
    GapRule(
        "replica-unreadable",
        _damaged_replicas,
        "the log of {partition} on broker {broker} cannot be read from offset {end} on, and its high watermark is "
        "{high_watermark}",
        subject="replica {broker} of {partition}",
    ),
    GapRule(
        "offsets-missing",
        _logs,
        _HOLES,
        where=lambda row: row["holes"] and not row["left_out"] and row["is_known"],
        subject="holes in {partition}",
    ),
    GapRule(
        "offsets-never-written",
        _logs,
        _HOLES,
        where=lambda row: row["holes"] and not row["left_out"] and not row["is_known"],
        subject="holes in {partition}",
        code=CONTRADICTORY,
    ),
    GapRule(
        "read-not-in-log",
        _logs,
        "{read_not_in_log} records of {partition} were read that its log does not hold",
        where=lambda row: row.get("read_not_in_log"),
        subject="batches",
        tables=("batches",),
        follows_from=LOGS_CUT,
    ),
    GapRule(
        "names-differ",
        _logs,
        "one reader received {named_by_some:record} of {partition} without the value that others received",
        # A custom pipeline may forward the header of its input.
        where=lambda row: row.get("named_by_some") and row["journaled"],
        subject="names in {partition}",
    ),
    GapRule(
        "log-not-read",
        _logs,
        "the log of {partition} holds {unread} records that the final read-uncommitted reader did not receive",
        where=lambda row: row.get("unread") and not row["internal"],
        subject="records",
        tables=("records",),
        follows_from=("no-final-reader", "partition-not-read", "final-read-unfinished"),
        shares=("partition", "isolation"),
    ),
    GapRule(
        "written-after-sentinel",
        _logs,
        _BEYOND + "the sentinel",
        where=lambda row: row.get("beyond") and row["journaled"],
        subject="beyond the end of {partition}",
        tables=("records",),
    ),
    GapRule(
        "written-after-end",
        _logs,
        _BEYOND + "the stages were taken to have finished",
        where=lambda row: row.get("beyond") and not row["journaled"],
        subject="beyond the end of {partition}",
        tables=("records",),
        remedy=STILL_WRITING,
    ),
    GapRule(
        "transactions-empty",
        once(
            lambda e: (
                e.run.has_log
                and e.numbers["acknowledged"]
                and e.facts.logs(TRANSACTIONS_TOPIC)
                and not e.numbers["transactions"]
            )
        ),
        "the table transactions is empty, though transactions committed",
        subject="transactions",
        tables=("transactions",),
    ),
    GapRule(
        "offsets-empty",
        once(
            lambda e: (
                e.run.has_log
                and e.numbers["claiming"]
                and e.facts.logs(OFFSETS_TOPIC)
                and not e.facts.total("commits")
            )
        ),
        "the table offsets is empty, though offsets were committed",
        subject="offsets",
        tables=("offsets",),
    ),
)


def _claimed_outside(evidence: RunEvidence) -> int:
    """Return how many transactions claim inputs for a group that commits its offsets only outside transactions."""
    logs = evidence.facts.logs(OFFSETS_TOPIC)
    promised = evidence.run.has_log and evidence.promises.offsets_within
    outside: int = evidence.numbers["claiming_outside"] if promised and bool(logs) and all(logs) else 0
    return outside


def _internal_logs(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the logs of internal topics that are stored and not compacted, and what their tables have of them.

    On a shared cluster the tables have only the rows of the run.
    """
    shared = evidence.run.promises is not None and not evidence.run.promises.replicas
    if not evidence.run.has_log or shared:
        return
    for row in evidence.partitions:
        if row["logged"] and not row["compacted"]:
            yield {
                "topic": row["topic"],
                "partition": row["name"],
                "unattributed": row.get("unattributed_offsets", 0),
                "states": row.get("states", 0),
                "log_start": row["log_start"],
                "log_end": row["log_end"],
            }


def _unknown_markers(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the partitions with more markers than transactions in the transaction log.

    Markers that repeat the one before them are not counted. On a shared cluster the markers in internal topics are not
    counted, because other users write them too.
    """
    for row in (
        sorted(evidence.facts.markers, key=lambda marker: marker["tp"]) if evidence.run.has_log else ()
    ):
        partition = evidence.facts.partitions.get(row["tp"])
        if partition is not None and not (partition["internal"] and not evidence.promises.replicas):
            yield {**row, "partition": evidence.facts.name(row["tp"])}


INTERNAL_LOGS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "offsets-outside",
        once(_claimed_outside),
        "{count:transaction} claimed inputs for a group that committed no offset within a transaction: it is not known "
        "whether outputs and offsets were committed together (if offset-output-mismatch was found, this follows from "
        "it)",
        subject="offsets within",
        remedy=NO_OFFSETS_WITHIN.remedy,
    ),
    GapRule(
        "offset-commits-missing",
        _internal_logs,
        "the log of {partition} holds {unattributed} records of transactions that the table offsets lacks",
        where=lambda row: row["topic"] == OFFSETS_TOPIC and row["unattributed"],
        subject="offsets",
        tables=("offsets",),
    ),
    GapRule(
        "states-missing",
        _internal_logs,
        "the table transactions holds {states} records of {partition}, whose log goes from offset {log_start} to "
        "{log_end}",
        where=lambda row: (
            row["topic"] == TRANSACTIONS_TOPIC and row["states"] != row["log_end"] - row["log_start"]
        ),
        subject="transactions",
        tables=("transactions",),
    ),
    GapRule(
        "transactions-missing",
        _unknown_markers,
        "the transaction log lacks transactions that have markers in {partition}: {markers:marker} of "
        "{producers:producer} (for example producer id {producer_id})",
        subject="transactions",
        tables=("transactions",),
    ),
    GapRule(
        "markers-repeated",
        once(lambda e: e.run.has_log and e.numbers["doubtful_producers"]),
        "the markers of {count:producer} repeat the one before and contradict the transaction log: it is not known to "
        "which transactions they belong",
        subject="repeated markers",
    ),
    GapRule(
        "transactions-merged",
        once(lambda e: e.run.has_log and e.numbers["merged"]),
        "several operations wrote into one transaction of the transaction log: {count:transaction}; the log lacks "
        "transactions, or requests arrived after their transactions had ended",
        subject="merged transactions",
        tables=("transactions",),
    ),
)


def _short_logs(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the leaders' logs whose batches end below the log end. A marker may be missing there."""
    for row in _replicas(evidence) if evidence.run.has_log else ():
        end, start, reached = row.get("log_end"), row.get("log_start", 0), row.get("reached", 0)
        whole = row.get("damaged") is not None or end is None or end <= start or reached == end
        if row["leader"] and not whole:
            yield {"partition": row["partition"], "reached": reached, "log_end": end, "kind": "batches"}


def _several_short_logs(evidence: RunEvidence) -> Iterator[Row]:
    short = list(_short_logs(evidence))
    if len(short) > 1:
        yield {"logs": len(short), "kind": "batches"}


def _incomplete_replicas(evidence: RunEvidence) -> Iterator[Row]:
    """Yield a row for each broker and kind of gap in its replicas: `kind`, `broker`, `first` (a sentence), `others`.

    A damaged replica has no row: another rule reports it.
    """
    if not (evidence.run.has_log and evidence.promises.replicas):
        return
    marks: dict[int, int] = {}
    starts = {row["tp"]: row.get("log_start", 0) for row in evidence.facts.replicas if row["leader"]}
    for row in evidence.facts.replicas:
        marks[row["tp"]] = max(row.get("high_watermark", 0), marks.get(row["tp"], 0))
    gaps: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in sorted(_replicas(evidence), key=lambda replica: (replica["tp"], replica["broker"])):
        gap = _gap(row, marks[row["tp"]], starts.get(row["tp"]))
        if row.get("damaged") is None and gap:
            kind, sentence = gap
            gaps[kind, row["broker"]].append(sentence)
    for (kind, broker), sentences in gaps.items():
        count = len(sentences) - 1
        others = f", and so do {plural(count, 'other replica')} there" if count else ""
        yield {"kind": kind, "broker": broker, "first": sentences[0], "others": others}


def _gap(row: Row, mark: int, leaders_start: int | None) -> tuple[str, str] | None:
    """Return the kind of gap in one replica, and a sentence about it. None: the replica is complete."""
    start, end, reached = row.get("log_start", 0), row.get("log_end"), row.get("reached", 0)
    replica = f"the replica of {row['partition']}"
    if row.get("high_watermark") is None:
        return "high watermarks", f"{replica} has no high watermark"
    if end is None or (end > start and reached != end and not row["leader"]):
        return "batches", f"{replica} has batches up to offset {reached}, and its log ends at {end}"
    if leaders_start is not None and start > leaders_start:
        return "log starts", f"{replica} begins at offset {start}, and its leader's at {leaders_start}"
    if end < mark:
        return "log ends", f"{replica} ends at offset {end}, below the high watermark {mark}"
    return None


def _topic_ids(evidence: RunEvidence) -> Iterator[Row]:
    """Yield how many topic ids the replicas of each partition have."""
    if not (evidence.run.has_log and evidence.promises.replicas):
        return
    topic_ids: dict[int, set[str]] = defaultdict(set)
    for row in evidence.facts.replicas:
        topic_ids[row["tp"]].add(str(row.get("topic_id")))
    for tp, ids in sorted(topic_ids.items()):
        yield {"partition": evidence.facts.name(tp), "ids": len(ids)}


REPLICAS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "several-logs-end-early",
        _several_short_logs,
        "the table batches lacks the ends of {logs:log} that the table replicas names",
        subject="ends of logs",
        tables=("batches", "replicas"),
        code=CONTRADICTORY,
    ),
    GapRule(
        "log-ends-early",
        _short_logs,
        "the table batches has {partition} up to offset {reached}, and the table replicas up to {log_end}",
        subject="end of the log of {partition}",
        tables=("batches", "replicas"),
        code=CONTRADICTORY,
        follows_from=("several-logs-end-early",),
    ),
    GapRule(
        "replica-incomplete",
        _incomplete_replicas,
        "on broker {broker} {first}{others}",
        subject="{kind} on broker {broker}",
        tables=("replicas",),
        follows_from=LOGS_CUT,
        shares=("kind",),
    ),
    GapRule(
        "topic-ids-differ",
        _topic_ids,
        "the replicas of {partition} have {ids:topic id}, so one is of another topic",
        where=lambda row: row["ids"] > 1,
        subject="topic id of {partition}",
        tables=("replicas",),
    ),
)
RULES = (*STORED, *LOGS, *INTERNAL_LOGS, *REPLICAS)
