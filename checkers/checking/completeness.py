"""Find the gaps in the evidence of a run. A run with a gap cannot be valid.

The tables are compared with what the run promised to record, and with each other: if one table mentions rows of another
table, the other table must have them. Each gap is a reason that makes the run unknown (`broken`). If a table has a gap,
findings that rest on an absence from this table do not count.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from checkers.checker import NEEDS, ONLY_LAST_RECORDS, TRANSACTION_NEEDS, refused_log
from checkers.checking.agreement import BY_JOURNAL, add_contradictions
from checkers.checking.custom_pipelines import check_custom_pipeline
from checkers.checking.logs import check_internal_logs, check_log_ends, check_replicas, check_transaction_log
from checkers.checking.run_facts import EvidenceCounts, MissingEvidence
from checkers.registry import COMPLETE_PARTITIONS, INPUT_READS
from checkers.stored.broker_log import TRANSACTIONS_TOPIC
from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.sources import StoredRun
from checkers.stored.tally import Row
from harness.model.promises import FETCH, INTERNAL_TOPICS, SEGMENTS, Promises
from harness.model.vocabulary import Isolation, OffsetTracking, Role
from harness.results.reasons import NO_OFFSETS_WITHIN, NO_TRANSACTIONS, Reason
from harness.results.wording import plural

NOTHING_WRITTEN = (
    "read the logs of the programs, in workers/ of the run; `--nemesis none` shows whether they work"
)
OTHER_GROUP = (
    "check that `group` in the [[stage]] is the group in which the program commits, and that it commits the offsets of "
    "inputs without outputs as well"
)
STILL_WRITING = (
    "write a longer idle_s in the [[stage]] that writes there, or let [stage.progress] print its progress"
)
"""Remedies of gaps that a second run alone would not close."""


def missing_needs(
    facts: EvidenceCounts,
    *,
    healed: bool = True,
    transactions: bool = True,
    offsets_within: bool = True,
    free_stages: Collection[str] = (),
    refused_logs: Mapping[str, str] | None = None,
) -> dict[str, Reason]:
    """Return the keys of `NEEDS` that this run does not have, each with its reason.

    Args:
        healed: it is known when the last fault was healed
        transactions: the stages write in transactions
        offsets_within: the stages commit their groups' offsets in these transactions
        free_stages: stages whose inputs need not lead to anything
        refused_logs: by internal topic, what the cluster answered when it did not give the log
    """
    stages_with_outputs = [stage for stage in facts.stages if stage["stage"] not in free_stages]
    without_journals = [stage for stage in facts.stages if stage.get("journaled") is False]
    has = {
        "journals": not without_journals,
        "joined": not without_journals or bool(facts.numbers["expected"]),
        "inputs": bool(stages_with_outputs) or not facts.stages,
        "log": any(facts.logs(None)),
        "offsets": any(facts.logs(OFFSETS_TOPIC)),
        "offsets-within": bool(facts.numbers["within"]),
        "transactions": bool(facts.logs(TRANSACTIONS_TOPIC)) and all(facts.logs(TRANSACTIONS_TOPIC)),
        "replicas": any(row["followers"] for row in facts.partitions.values()),
        "group-offsets": all(
            (stage.get("group") is not None and stage not in without_journals)
            or stage.get("positions") == OffsetTracking.EACH.value
            or (stage in without_journals and (stage.get("group") is None or any(facts.logs(OFFSETS_TOPIC))))
            for stage in stages_with_outputs
        ),
        "healed": healed,
        "expected": bool(facts.numbers["expected"]),
        "order": any(stage.get("ordered") for stage in facts.stages),
        "aggregate": bool(facts.numbers["sums"]),
    }
    lacking = {need: NEEDS[need] for need, is_met in has.items() if not is_met}
    for need, topic in (("offsets", OFFSETS_TOPIC), ("transactions", TRANSACTIONS_TOPIC)):
        if need in lacking and (answer := (refused_logs or {}).get(topic)):
            lacking[need] = refused_log(topic, answer)
            if need == "offsets" and "offsets-within" in lacking:
                # Without the log it is not known how offsets were committed.
                lacking["offsets-within"] = lacking[need]
    if not offsets_within:
        lacking |= dict.fromkeys(lacking.keys() & {"offsets-within"}, NO_OFFSETS_WITHIN)
    if without_journals and has["aggregate"]:
        lacking |= dict.fromkeys(lacking.keys() & {"joined", "expected"}, ONLY_LAST_RECORDS)
    if not transactions:
        lacking |= dict.fromkeys(lacking.keys() & TRANSACTION_NEEDS, NO_TRANSACTIONS)
    return lacking


def find_missing_evidence(facts: EvidenceCounts, run: StoredRun) -> MissingEvidence:
    """Compare one run's tables with its promises, and with each other."""
    missing = MissingEvidence()
    promises = run.promises or _default_promises(facts)
    promised = [topic for topic in promises.internal_logs if topic not in run.refused_logs]
    for topic in (None, *promised) if run.had_log else ():
        if not (run.has_log and facts.logs(topic)):
            name = topic or "the pipeline's topics"
            missing.add(
                f"log of {name}",
                f"the run stored the logs of {name}, and they are missing",
                "batches",
                "replicas",
            )
    _journals(facts, missing)
    if not facts.stages and (run.blind or run.without_journals or facts.has_journal_of(Role.WORKER)):
        missing.add("stages", "the table stages is empty, though workers ran", "stages")
    _final_reads(facts, missing)
    _expectations(facts, missing)
    _nothing_done(facts, promises, missing)
    if not run.journaled:
        check_custom_pipeline(facts, run, missing)
    _progress(facts, run, promises, missing)
    _contradictions(facts, missing)
    for tp, row in sorted(facts.partitions.items()):
        _edges(facts.name(tp), row, missing)
    if run.has_log:
        _logs(facts, run, promises, missing)
        _offsets_within(facts, promises, missing)
        check_internal_logs(facts, run, missing)
        check_transaction_log(facts, promises, missing)
        check_log_ends(facts, missing)
        if promises.replicas:
            check_replicas(facts, missing)
    add_contradictions(facts, missing)
    return missing


def _default_promises(facts: EvidenceCounts) -> Promises:
    """Return the promises that are assumed if a run's promises are not known.

    All stages keep journals, and the segment files of all replicas were read.
    """
    stages = sorted({stage["stage"] for stage in facts.stages})
    return Promises(journaled=tuple(stages), witness=SEGMENTS, internal_logs=INTERNAL_TOPICS, replicas=True)


def _journals(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    if not facts.journals and (facts.numbers["ops"] or facts.numbers["sent"]):
        missing.add(
            "journals",
            "the table journals is empty, though operations are recorded",
            "journals",
            "ops",
            "sends",
        )
    for row in facts.journals:
        name = f"journal {row['journal']}"
        if row["missing_lines"]:
            missing.add(
                name,
                f"{name} lacks {plural(row['missing_lines'], 'line')}",
                *BY_JOURNAL,
                "ops",
                "journals",
            )
        elif not row["unbroken"]:
            missing.add(
                name,
                f"{name} had {row['ops']} operations, and the table ops has {row['counted']}",
                *BY_JOURNAL,
                "ops",
                "journals",
            )
        elif row["role"] != Role.WORKER.value and not row["ended"]:
            # A killed worker is replaced by another one. A feeder, observer or final reader is not.
            missing.add(name, f"{name} ends early: its {row['role']} did not finish")
    for journal in facts.numbers["unknown_journals"] or ():
        missing.add(
            f"journal {journal}",
            f"records have values of journal {journal}, which is not stored",
            "sends",
            "ops",
        )
    for journal in facts.numbers["cut_journals"] or ():
        missing.add(
            f"end of journal {journal}",
            f"journal {journal} has no end, and records name operations after its last line: lines of it are missing",
            "sends",
            "ops",
        )
    if not facts.numbers["sent"] and facts.numbers["values"]:
        missing.add("sends", "the table sends is empty, though records were found", "sends")


def _final_reads(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Note partitions that no final reader read to the end. Without these reads nothing can be checked."""
    if not facts.partitions:
        missing.add("partitions", "the table partitions is empty", "partitions")
    data = {tp for tp, row in facts.partitions.items() if not row["internal"]}
    final = [row for row in facts.ends if row.get("role") != Role.OBSERVER.value]
    for isolation in Isolation:
        ends = {row["tp"]: row for row in final if row["isolation"] == isolation.value}
        table, column = (
            ("polls", "delivered") if isolation is Isolation.READ_COMMITTED else ("records", "found")
        )
        if data and not ends:
            missing.add(
                f"final {isolation.value}", f"no final reader read the topics {isolation.value}", "ends"
            )
            continue
        for tp in sorted(data):
            name = f"final {isolation.value} read of {facts.name(tp)}"
            row = ends.get(tp)
            if row is None:
                missing.add(name, f"no final reader read {facts.name(tp)} {isolation.value}")
            elif row.get("sentinel_offset") is None:
                missing.add(
                    name,
                    f"the final {isolation.value} reader ({row['journal']}) did not come to the end of "
                    f"{facts.name(tp)}: it stopped at offset {row['next']}",
                )
            elif row["next"] <= row["sentinel_offset"]:
                missing.add(
                    name,
                    f"the table ends says that the final {isolation.value} reader ({row['journal']}) met the "
                    f"end of {facts.name(tp)} at offset {row['sentinel_offset']}, and read nothing from "
                    f"offset {row['next']} on",
                    "ends",
                )
            elif row["read"] and not facts.partitions[tp].get(column):
                missing.add(
                    table,
                    f"the table {table} has no record of {facts.name(tp)}, where the final {isolation.value} "
                    f"reader ({row['journal']}) read {row['read']} records",
                    table,
                )
            elif isolation is Isolation.READ_COMMITTED and (words := _not_to_the_end(facts, tp, row)):
                missing.add(name, f"the final {isolation.value} reader ({row['journal']}) {words}", table)
            elif row["read"] != (stored := facts.partitions[tp].get(column, 0)):
                missing.add(
                    name,
                    f"the table {table} holds {stored} records of {facts.name(tp)}, where the final "
                    f"{isolation.value} reader ({row['journal']}) read {row['read']} records",
                    table,
                )
            if facts.partitions[tp]["is_input"] and name in missing.reasons:
                missing.tables.add(INPUT_READS)


def _not_to_the_end(facts: EvidenceCounts, tp: int, row: Row) -> str:
    """Say which records a final read-committed read missed, though it reached the sentinel. Empty: none."""
    name, last = facts.name(tp), facts.partitions[tp].get("last_stable", -1)
    if row["next"] <= last:
        return f"stopped at offset {row['next']} of {name}, whose last visible record is at offset {last}"
    if backwards := facts.disorder.get(tp):
        return f"received {plural(backwards, 'record')} of {name} below an earlier record"
    return ""


def _expectations(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Compare the table expected with the number of rows that the final readers wrote for each partition."""
    expected: dict[int, int] = {}
    for row in facts.ends:
        if row.get("expected") is not None:
            expected[row["tp"]] = expected.get(row["tp"], 0) + row["expected"]
    for tp, rows in sorted(expected.items()):
        if tp in facts.partitions and (stored := facts.partitions[tp]["expected"]) != rows:
            missing.add(
                f"expected of {facts.name(tp)}",
                f"the table expected holds {plural(stored, 'row')} for the inputs of {facts.name(tp)}, and the final "
                f"reader wrote {rows}",
                "expected",
            )


def _nothing_done(facts: EvidenceCounts, promises: Promises, missing: MissingEvidence) -> None:
    numbers = facts.numbers
    workers = facts.has_journal_of(Role.WORKER)
    without_journals = any(stage.get("journaled") is False for stage in facts.stages)
    journaled = (
        bool(facts.stages)
        and not without_journals
        and (workers or any(stage["stage"] in promises.journaled for stage in facts.stages))
    )
    if not facts.total("read"):
        missing.add(
            "nothing read", "the final read-committed readers received no record: nothing was read", "polls"
        )
    if without_journals and not facts.count_any_outputs():
        words = "no output is visible: nothing was committed"
        missing.add("nothing committed", words, remedy=NOTHING_WRITTEN)
    if not without_journals and not numbers["effective_of_stages" if facts.stages else "effective"]:
        missing.add("nothing committed", "no operation is known to have taken effect: nothing was committed")
    if facts.stages and not facts.total("inputs"):
        words = "no input is visible: there was nothing to process"
        missing.add("no inputs", words, remedy="choose a longer `--time-limit` or a higher `--rate`")
    consumed = facts.total("consumed")
    if journaled and not consumed:
        missing.add("nothing consumed", "no worker received any input: nothing was consumed", "polls")
    stages_with_outputs = {stage["stage"] for stage in facts.stages} - set(promises.free_stages)
    if journaled and consumed and not numbers["assignments"]:
        missing.add("assignments", "the table assignments is empty, though inputs were read", "assignments")
    if journaled and consumed and stages_with_outputs:
        if not numbers["expected"] and not numbers["sums"]:
            missing.add("expected", "the table expected is empty, though inputs were read", "expected")
        for stage in sorted(stages_with_outputs - facts.due) if facts.due else ():
            missing.add(
                f"expected of {stage}",
                f"it is not known what the inputs of stage {stage} must lead to",
                "expected",
            )
        if not numbers["claims"] and facts.total("commits"):
            missing.add("claims", "the table claims is empty, though offsets were committed", "claims")
    for group in sorted(facts.groups, key=lambda row: (row["group"], row["tp"])):
        missing.add(
            f"group {group['group']}",
            f"it is not known from which offset group {group['group']} read {facts.name(group['tp'])}, which it has "
            f"committed up to offset {group['final']}: skipped inputs would not be noticed",
            "assignments",
        )


def _progress(facts: EvidenceCounts, run: StoredRun, promises: Promises, missing: MissingEvidence) -> None:
    """Note groups that committed an offset beyond the end of a partition, or that did not commit all inputs though the
    stage was drained.
    """
    for stage in facts.stages:
        group, free = stage.get("group"), stage["stage"] in promises.free_stages
        if group is None or free or stage.get("positions") not in (None, OffsetTracking.GROUP.value):
            continue
        for tp, row in sorted(facts.partitions.items()):
            if row["topic"] != stage["in_topic"] or not row.get("stable_inputs"):
                continue
            name, final, last = facts.name(tp), facts.progress.get((group, tp)), row.get("last_stable", -1)
            label = f"group {group} of stage {stage['stage']}"
            words = ""
            if final is not None and row["logged"] and final > row["log_end"]:
                words = f"{label} has committed offset {final} of {name}, whose log ends at {row['log_end']}"
            elif final is None and run.drained:
                words = (
                    f"{label} has committed no offset of {name}, which holds {plural(row['stable_inputs'], 'input')}: "
                    "it is not known which were processed"
                )
            elif final is not None and final <= last and run.drained:
                words = (
                    f"{label} has committed {name} up to offset {final}, and the last input there is at offset {last}, "
                    "though the stage is recorded as having processed all of its inputs"
                )
            if words:
                own = stage.get("journaled") is False
                missing.add(f"progress of {group} in {name}", words, remedy=OTHER_GROUP if own else "")


def _contradictions(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Note contradictions about producers and leaders. `checkers.checking.agreement` has the others."""
    if shared := facts.numbers["shared_producers"]:
        words = f"the table transactions gives {plural(shared, 'producer id')} to several transactional ids"
        missing.add_contradiction("producer ids", words, "transactions")
    for row in facts.replicas:
        if not row["agrees"]:
            words = f"the tables replicas and batches do not agree on the leader of {facts.name(row['tp'])}"
            missing.add_contradiction("leaders", words, "replicas", "batches")
    leaders = Counter(row["tp"] for row in facts.replicas if row["leader"])
    for tp, leading in sorted(leaders.items()):
        if leading > 1:
            words = f"the table replicas has {leading} leaders of {facts.name(tp)}"
            missing.add_contradiction("replicas", words, "replicas", "batches")


def _holes(name: str, row: Row, promises: Promises, missing: MissingEvidence) -> None:
    """Note the offsets that a log lacks without compaction. Without a marker, a transaction seems to have ended
    otherwise.
    """
    # A run that fetches the logs stores only its own batches of internal topics. Others may write there, too.
    left_out = promises.witness == FETCH and row["internal"]
    if not row["holes"] or row["compacted"] or left_out:
        return
    is_known = row["holes"] <= row.get("known_to_be_gone", 0)
    note = missing.add if is_known else missing.add_contradiction
    note(
        f"holes in {name}",
        f"the leader's log of {name} lacks {plural(row['holes'], 'offset')}, though nothing was compacted",
    )


def _logs(facts: EvidenceCounts, run: StoredRun, promises: Promises, missing: MissingEvidence) -> None:
    acknowledged = facts.numbers["acknowledged"]
    if facts.partitions and not any(row["logged"] for row in facts.partitions.values()):
        missing.add("replicas", "the table replicas names no leader with a whole log", "replicas", "batches")
    for tp, row in sorted(facts.partitions.items()):
        name = facts.name(tp)
        if row["topic"] in promises.tables:
            continue  # it is in a database and has no broker log
        if "replicas" not in missing.reasons and not row["logged"]:
            missing.add(f"log of {name}", f"the leader's log of {name} is missing or damaged", "replicas")
        if damaged := row.get("unreadable"):
            broker, end, mark = (damaged.get(key) for key in ("broker", "log_end", "high_watermark"))
            missing.add(
                f"replica {broker} of {name}",
                f"the log of {name} on broker {broker} cannot be read from offset {end} on, and its high "
                f"watermark is {'not known' if mark is None else mark}",
            )
        _holes(name, row, promises, missing)
        if row.get("read_not_in_log"):
            missing.add(
                "batches",
                f"{row['read_not_in_log']} records of {name} were read that its log does not hold",
                "batches",
            )
        # A custom pipeline may forward the header of its input.
        if row.get("named_by_some") and run.journaled:
            missing.add(
                f"names in {name}",
                f"one reader received {plural(row['named_by_some'], 'record')} of {name} without the value that "
                "others received",
            )
        if row.get("unread") and not row["internal"]:
            missing.add(
                "records",
                f"the log of {name} holds {row['unread']} records that the final "
                "read-uncommitted reader did not receive",
                "records",
            )
        if row.get("beyond"):
            end = "the sentinel" if run.journaled else "the stages were taken to have finished"
            missing.add(
                f"beyond the end of {name}",
                f"the log of {name} holds {row['beyond']} records at or above offset {row['ru_next']}, where "
                f"the final read-uncommitted reader ended: they were written after {end}",
                "records",
                remedy="" if run.journaled else STILL_WRITING,
            )
    if acknowledged and facts.logs(TRANSACTIONS_TOPIC) and not facts.numbers["transactions"]:
        missing.add(
            "transactions", "the table transactions is empty, though transactions committed", "transactions"
        )
    if facts.numbers["claiming"] and facts.logs(OFFSETS_TOPIC) and not facts.total("commits"):
        missing.add("offsets", "the table offsets is empty, though offsets were committed", "offsets")


def _offsets_within(facts: EvidenceCounts, promises: Promises, missing: MissingEvidence) -> None:
    """Note transactions that claim inputs for a group that commits its offsets only outside transactions."""
    logs = facts.logs(OFFSETS_TOPIC)
    outside = facts.numbers["claiming_outside"]
    if promises.offsets_within and bool(logs) and all(logs) and outside:
        missing.add(
            "offsets within",
            f"{plural(outside, 'transaction')} claimed inputs for a group that committed no offset within a "
            "transaction: it is not known whether outputs and offsets were committed together "
            "(if offset-output-mismatch was found, this follows from it)",
            remedy=NO_OFFSETS_WITHIN.remedy,
        )


def _edges(name: str, row: Row, missing: MissingEvidence) -> None:
    """Note a partition whose log does not reach from offset 0 to the end of the final read."""
    if row["internal"]:
        return
    mark, end, following = (row.get(edge) or 0 for edge in ("high_watermark", "log_end", "rc_next"))
    start = max(row.get("rc_first") or 0, row.get("ru_first") or 0)
    if row["compacted"] and row["sums_alone"]:
        pass  # a sum is checked by the last record of its key, which the log cleaner keeps
    elif row["compacted"]:
        words = f"{name} is compacted: what is missing from it proves nothing"
        missing.add(f"edges of {name}", words, COMPLETE_PARTITIONS)
    elif start > 0:
        words = f"the log of {name} begins at offset {start}: earlier records are gone"
        missing.add(f"edges of {name}", words, COMPLETE_PARTITIONS)
    elif row["logged"] and row.get("high_watermark") is not None and not following <= mark <= end:
        words = (
            f"the high watermark of {name} is {mark}, its log ends at {end}, and the final reader read up to "
            f"offset {following}"
        )
        missing.add(f"edges of {name}", words, "replicas")
