"""Gaps in what the processes of a run left: journals, final reads, and the reads of observers.

Without the final reads nothing can be checked. An observer that stops early or receives nothing finds nothing wrong.
Each reader writes at its end a row of `ends` for each partition: where it began, where it stopped, and how many records
it received.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from checkers.gaps.rule import GapRule, Row, RunEvidence, once
from checkers.registry import INPUT_READS
from harness.model.vocabulary import Isolation, Role
from harness.results.reasons import ReasonCode

BY_JOURNAL = ("polls", "sends", "claims", "assignments")
"""Tables whose rows each journal has counted."""
CUT_SHORT = (ReasonCode.RUN_KILLED, ReasonCode.RUN_FAILED)
"""Problems of a run that did not come to its end."""
NOT_READ = (*CUT_SHORT, ReasonCode.NEVER_CAME_UP, ReasonCode.READER_SHORT)
"""Problems after which final readers did not read to the end."""


def _journals(evidence: RunEvidence) -> Iterable[Row]:
    return evidence.facts.journals


def _lacks_operations(row: Row) -> bool:
    return not row["missing_lines"] and not row["unbroken"]


def _named_journals(evidence: RunEvidence, kind: str) -> Iterator[Row]:
    for journal in evidence.numbers[kind] or ():
        yield {"journal": journal}


JOURNALS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "journals-empty",
        once(lambda e: not e.facts.journals and (e.numbers["ops"] or e.numbers["sent"])),
        "the table journals is empty, though operations are recorded",
        subject="journals",
        tables=("journals", "ops", "sends"),
    ),
    GapRule(
        "several-journals-lack-operations",
        lambda e: [{"journals": sum(map(_lacks_operations, e.facts.journals))}],
        "the table ops does not have the operations that {journals:journal} had",
        where=lambda row: row["journals"] > 1,
        subject="ops",
        tables=(*BY_JOURNAL, "ops", "journals"),
    ),
    GapRule(
        "journal-lacks-lines",
        _journals,
        "journal {journal} lacks {missing_lines:line}",
        where=lambda row: row["missing_lines"],
        subject="journal {journal}",
        tables=(*BY_JOURNAL, "ops", "journals"),
    ),
    GapRule(
        "journal-lacks-operations",
        _journals,
        "journal {journal} had {ops} operations, and the table ops has {counted}",
        where=_lacks_operations,
        subject="journal {journal}",
        tables=(*BY_JOURNAL, "ops", "journals"),
        follows_from=("several-journals-lack-operations",),
    ),
    GapRule(
        "journal-ends-early",
        _journals,
        "journal {journal} ends early: its {role} did not finish",
        # A killed worker is replaced by another one. A feeder, observer or final reader is not.
        where=lambda row: (
            not row["missing_lines"]
            and row["unbroken"]
            and row["role"] != Role.WORKER.value
            and not row["ended"]
        ),
        subject="journal {journal}",
        follows_from=CUT_SHORT,
    ),
    GapRule(
        "journal-not-stored",
        lambda e: _named_journals(e, "unknown_journals"),
        "records have values of journal {journal}, which is not stored",
        subject="journal {journal}",
        tables=("sends", "ops"),
        follows_from=("journals-empty",),
    ),
    GapRule(
        "journal-cut-off",
        lambda e: _named_journals(e, "cut_journals"),
        "journal {journal} has no end, and records name operations after its last line: lines of it are missing",
        subject="end of journal {journal}",
        tables=("sends", "ops"),
    ),
    GapRule(
        "sends-empty",
        once(lambda e: not e.numbers["sent"] and e.numbers["values"]),
        "the table sends is empty, though records were found",
        subject="sends",
        tables=("sends",),
        follows_from=("journals-empty",),
    ),
    GapRule(
        "stages-empty",
        once(
            lambda e: (
                not e.facts.stages
                and (e.run.blind or e.run.without_journals or e.facts.has_journal_of(Role.WORKER))
            )
        ),
        "the table stages is empty, though workers ran",
        subject="stages",
        tables=("stages",),
    ),
)


def _levels_without_reader(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the isolation levels at which no final reader read anything."""
    levels = {row["isolation"] for row in _final_ends(evidence)}
    for isolation in Isolation:
        if evidence.pipeline_partitions and isolation.value not in levels:
            yield {"isolation": isolation.value}


def _final_ends(evidence: RunEvidence) -> list[Row]:
    return [row for row in evidence.facts.ends if row.get("role") != Role.OBSERVER.value]


def _final_reads(evidence: RunEvidence) -> Iterator[Row]:
    """Yield a row for each partition and each isolation level at which there are final reads.

    Columns: partition, isolation, `was_read`; if it was read, `reader` (its journal), next, read, sentinel_offset;
    `reached` (the reader met the sentinel); the `table` of the records, and how many of them are `stored`; for
    read_committed `last_stable` and `backwards`; `input_reads`.
    """
    for isolation in Isolation:
        committed = isolation is Isolation.READ_COMMITTED
        ends = {row["tp"]: row for row in _final_ends(evidence) if row["isolation"] == isolation.value}
        for partition in evidence.pipeline_partitions if ends else ():
            end = ends.get(partition["tp"], {})
            sentinel_offset = end.get("sentinel_offset")
            yield {
                "partition": partition["name"],
                "isolation": isolation.value,
                "was_read": bool(end),
                "reader": end.get("journal"),
                "next": end.get("next"),
                "read": end.get("read"),
                "sentinel_offset": sentinel_offset,
                "reached": sentinel_offset is not None and end["next"] > sentinel_offset,
                "table": "polls" if committed else "records",
                "stored": partition.get("delivered" if committed else "found", 0),
                "last_stable": partition.get("last_stable", -1) if committed else -1,
                "backwards": evidence.facts.disorder.get(partition["tp"], 0) if committed else 0,
                "input_reads": INPUT_READS if partition["is_input"] else "",
            }


def _finished_reading(journal: Row) -> bool:
    return journal["role"] in (Role.OBSERVER.value, Role.FINAL.value) and bool(journal["ended"])


def _to_the_end(row: Row) -> bool:
    """True if a final read received every visible record, as far as the brokers' logs say, in their order."""
    return row["next"] > row["last_stable"] and not row["backwards"]


NO_LAST_RECORD = ("no-final-reader", "final-read-not-stored")
"""Rules about final reads. If they are missing, a sentinel seems to be the last visible record of a partition."""
_READER = "the final {isolation} reader ({reader})"
_READ = "final {isolation} read of {partition}"
FINAL_READS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "partitions-empty",
        once(lambda e: not e.facts.partitions),
        "the table partitions is empty",
        subject="partitions",
        tables=("partitions",),
    ),
    GapRule(
        "ends-empty",
        once(lambda e: not e.facts.ends and any(_finished_reading(row) for row in e.facts.journals)),
        "the table ends is empty, though readers finished",
        subject="ends",
        tables=("ends",),
    ),
    GapRule(
        "no-final-reader",
        _levels_without_reader,
        "no final reader read the topics {isolation}",
        subject="final {isolation}",
        tables=("ends",),
        follows_from=("ends-empty", *NOT_READ),
    ),
    GapRule(
        "partition-not-read",
        _final_reads,
        "no final reader read {partition} {isolation}",
        where=lambda row: not row["was_read"],
        subject=_READ,
        tables=("{input_reads}",),
        follows_from=NOT_READ,
    ),
    GapRule(
        "final-read-unfinished",
        _final_reads,
        _READER + " did not come to the end of {partition}: it stopped at offset {next}",
        where=lambda row: row["was_read"] and row["sentinel_offset"] is None,
        subject=_READ,
        tables=("{input_reads}",),
        follows_from=(*NOT_READ, ReasonCode.TRANSACTION_OPEN, ReasonCode.NO_SENTINELS),
    ),
    GapRule(
        "final-read-before-its-end",
        _final_reads,
        "the table ends says that "
        + _READER
        + " met the end of {partition} at offset {sentinel_offset}, and read "
        "nothing from offset {next} on",
        where=lambda row: row["sentinel_offset"] is not None and not row["reached"],
        subject=_READ,
        tables=("ends", "{input_reads}"),
    ),
    GapRule(
        "final-read-not-stored",
        _final_reads,
        "the table {table} has no record of {partition}, where " + _READER + " read {read} records",
        where=lambda row: row["reached"] and row["read"] and not row["stored"],
        subject="{table}",
        tables=("{table}",),
    ),
    GapRule(
        "final-read-stopped",
        _final_reads,
        _READER
        + " stopped at offset {next} of {partition}, whose last visible record is at offset {last_stable}",
        where=lambda row: (
            row["reached"] and (row["stored"] or not row["read"]) and row["next"] <= row["last_stable"]
        ),
        subject=_READ,
        tables=("{table}", "{input_reads}"),
        follows_from=(*NOT_READ, ReasonCode.TRANSACTION_OPEN),
    ),
    GapRule(
        "final-read-out-of-order",
        _final_reads,
        _READER + " received {backwards:record} of {partition} below an earlier record",
        where=lambda row: (
            row["reached"]
            and (row["stored"] or not row["read"])
            and row["next"] > row["last_stable"]
            and row["backwards"]
        ),
        subject=_READ,
        tables=("{table}", "{input_reads}"),
    ),
    GapRule(
        "final-read-count-differs",
        _final_reads,
        "the table {table} holds {stored} records of {partition}, where " + _READER + " read {read} records",
        where=lambda row: (
            row["reached"]
            and (row["stored"] or not row["read"])
            and _to_the_end(row)
            and row["read"] != row["stored"]
        ),
        subject=_READ,
        tables=("{table}", "{input_reads}"),
    ),
)


def _silent_observers(evidence: RunEvidence) -> Iterator[Row]:
    """Yield each promised observer and partition with visible records that has no row in `ends`."""
    ends = {(row["journal"], row["tp"]) for row in _observer_ends(evidence)}
    for reader in evidence.run.promises.readers if evidence.run.promises else ():
        if reader.role != Role.OBSERVER.value:
            continue
        for partition in evidence.partitions:
            wanted = partition["topic"] in reader.topics and partition.get("stable")
            if wanted and (reader.journal, partition["tp"]) not in ends:
                yield {
                    "journal": reader.journal,
                    "partition": partition["name"],
                    "stable": partition["stable"],
                }


def _observer_ends(evidence: RunEvidence) -> list[Row]:
    return [row for row in evidence.facts.ends if row.get("role") == Role.OBSERVER.value]


def _observer_reads(evidence: RunEvidence) -> Iterator[Row]:
    """Yield the rows that observers wrote, with what is visible in the partition."""
    for end in _observer_ends(evidence):
        partition = evidence.facts.partitions.get(end["tp"])
        if partition is not None:
            yield {
                **end,
                "partition": evidence.facts.name(end["tp"]),
                "visible": partition.get("visible", 0),
                "first_stable": partition.get("first_stable", end["first"]),
                "last_stable": partition.get("last_stable", -1),
            }


def _observed_partitions(evidence: RunEvidence) -> Iterator[Row]:
    """Yield how many records all observers of a partition received, and how many are stored."""
    received: dict[int, int] = defaultdict(int)
    for end in _observer_ends(evidence):
        if end["tp"] in evidence.facts.partitions:
            received[end["tp"]] += end["read"]
    for tp, count in sorted(received.items()):
        stored = evidence.facts.partitions[tp].get("observed", 0)
        yield {"partition": evidence.facts.name(tp), "received": count, "stored": stored}


OBSERVERS: tuple[GapRule[RunEvidence], ...] = (
    GapRule(
        "observer-left-no-end",
        _silent_observers,
        "the observer ({journal}) does not say how far it read {partition}, where {stable} records are visible",
        subject="observer of {partition}",
        tables=("ends",),
        follows_from=("ends-empty", *CUT_SHORT, "journal-ends-early"),
        shares=("journal",),
    ),
    GapRule(
        "observer-received-nothing",
        _observer_reads,
        "the observer ({journal}) received nothing from {partition}, where {visible} records are visible",
        where=lambda row: row["visible"] and not row["read"],
        subject="observer of {partition}",
        tables=("polls",),
        follows_from=(*CUT_SHORT, *NO_LAST_RECORD),
    ),
    GapRule(
        "observer-stopped-early",
        _observer_reads,
        "the observer ({journal}) stopped at offset {next} of {partition}, whose last visible record is at offset "
        "{last_stable}",
        where=lambda row: row["read"] and row["next"] <= row["last_stable"],
        subject="observer of {partition}",
        follows_from=(*CUT_SHORT, *NO_LAST_RECORD, "journal-ends-early"),
        shares=("journal",),
    ),
    GapRule(
        "observer-began-late",
        _observer_reads,
        "the observer ({journal}) began at offset {first} of {partition}, whose first visible record is at offset "
        "{first_stable}",
        where=lambda row: (
            row["read"] and row["next"] > row["last_stable"] and row["first"] > row["first_stable"]
        ),
        subject="observer of {partition}",
    ),
    GapRule(
        "observer-polls-differ",
        _observed_partitions,
        "the table polls has {stored} records of {partition} for observers, and they received {received}",
        where=lambda row: row["stored"] != row["received"],
        subject="observer of {partition}",
        tables=("polls",),
        follows_from=("final-read-not-stored",),
    ),
)
RULES = (*JOURNALS, *FINAL_READS)
