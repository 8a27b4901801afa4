"""Whether the evidence is whole: nothing checked is nothing known.

The tables are held against what the run had promised to leave, and against each other: what one says cannot be
empty, short or missing in another. What is found is told in a sentence and makes a run unknown (`broken`), and
where a table is not whole, nothing is accused on the strength of something not being there.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from checkers.checking.custom_pipelines import check_custom_pipeline
from checkers.checking.evidence import EvidenceCounts, MissingEvidence
from checkers.checking.internal_logs import check_internal_logs, check_transaction_log
from checkers.checking.replicas import check_replicas
from checkers.needs import NEEDS, ONLY_LAST_RECORDS, TRANSACTION_NEEDS, refused_log
from checkers.registry import COMPLETE_PARTITIONS
from checkers.stored.inputs import OFFSETS_TOPIC
from checkers.stored.producers import TRANSACTIONS_TOPIC
from checkers.stored.sources import StoredRun
from checkers.stored.tally import Row
from harness.model.promises import INTERNAL_TOPICS, SEGMENTS, Promises
from harness.model.vocabulary import Isolation, OffsetTracking, Role
from harness.results.reasons import NO_OFFSETS_WITHIN, NO_TRANSACTIONS, Reason
from harness.results.wording import plural


def missing_needs(
    facts: EvidenceCounts,
    *,
    healed: bool = True,
    transactions: bool = True,
    offsets_within: bool = True,
    free_stages: Collection[str] = (),
    refused_logs: Mapping[str, str] | None = None,
) -> dict[str, Reason]:
    """The keys of NEEDS that this run has not, each with its reason. `healed`: its last heal is known;
    `transactions`: its stages write in transactions; `offsets_within`: and move their groups' offsets in them;
    `free_stages`: those whose inputs have to lead to nothing; `refused_logs`: by internal topic, what the cluster said
    where it did not give its log.
    """
    bound = [stage for stage in facts.stages if stage["stage"] not in free_stages]
    unjournaled = [stage for stage in facts.stages if stage.get("journaled") is False]
    has = {
        "journals": not unjournaled,
        "joined": not unjournaled or bool(facts.numbers["expected"]),
        "inputs": bool(bound) or not facts.stages,
        "log": any(facts.logs(None)),
        "offsets": any(facts.logs(OFFSETS_TOPIC)),
        "offsets-within": bool(facts.numbers["within"]),
        "transactions": bool(facts.logs(TRANSACTIONS_TOPIC)) and all(facts.logs(TRANSACTIONS_TOPIC)),
        "replicas": any(row["followers"] for row in facts.partitions.values()),
        "group-offsets": all(
            (stage.get("group") is not None and stage not in unjournaled)
            or stage.get("positions") == OffsetTracking.EACH.value
            or (stage in unjournaled and (stage.get("group") is None or any(facts.logs(OFFSETS_TOPIC))))
            for stage in bound
        ),
        "healed": healed,
        "expected": bool(facts.numbers["expected"]),
        "order": any(stage.get("ordered") for stage in facts.stages),
        "aggregate": bool(facts.numbers["sums"]),
    }
    missing = {need: NEEDS[need] for need, there in has.items() if not there}
    for need, topic in (("offsets", OFFSETS_TOPIC), ("transactions", TRANSACTIONS_TOPIC)):
        if need in missing and (words := (refused_logs or {}).get(topic)):
            missing[need] = refused_log(topic, words)
            if need == "offsets" and "offsets-within" in missing:
                missing["offsets-within"] = missing[need]  # nobody could see where they were committed
    if not offsets_within:
        missing |= dict.fromkeys(missing.keys() & {"offsets-within"}, NO_OFFSETS_WITHIN)
    if unjournaled and has["aggregate"]:
        missing |= dict.fromkeys(missing.keys() & {"joined", "expected"}, ONLY_LAST_RECORDS)
    if not transactions:
        missing |= dict.fromkeys(missing.keys() & TRANSACTION_NEEDS, NO_TRANSACTIONS)
    return missing


def find_missing_evidence(facts: EvidenceCounts, run: StoredRun) -> MissingEvidence:
    """Hold one run's tables against its promises, and against each other."""
    found = MissingEvidence()
    promises = run.promises or _usual(facts)
    given = [topic for topic in promises.internal_logs if topic not in run.refused_logs]
    for topic in (None, *given) if run.had_log else ():
        if not (run.has_log and facts.logs(topic)):
            name = topic or "the pipeline's topics"
            found.add(
                f"log of {name}", f"the run had the logs of {name}, and they are gone", "batches", "replicas"
            )
    _journals(facts, found)
    if not facts.stages and (run.blind or run.unjournaled or facts.have(Role.WORKER)):
        found.add("stages", "the table stages is empty, though workers ran", "stages")
    _final_reads(facts, found)
    _expectations(facts, found)
    _nothing_done(facts, promises, found)
    if not run.journaled:
        check_custom_pipeline(facts, run, found)
    _progress(facts, run, promises, found)
    _contradictions(facts, found)
    for tp, row in sorted(facts.partitions.items()):
        _edges(facts.name(tp), row, found)
    if run.has_log:
        _logs(facts, run, promises, found)
        _offsets_within(facts, promises, found)
        check_internal_logs(facts, run, found)
        check_transaction_log(facts, promises, found)
        if promises.replicas:
            check_replicas(facts, found)
    return found


def _usual(facts: EvidenceCounts) -> Promises:
    """Return the promises that a run with unknown promises is held against.

    All stages keep journals, and the segment files of all replicas were read.
    """
    stages = sorted({stage["stage"] for stage in facts.stages})
    return Promises(journaled=tuple(stages), witness=SEGMENTS, internal_logs=INTERNAL_TOPICS, replicas=True)


def _journals(facts: EvidenceCounts, found: MissingEvidence) -> None:
    if not facts.journals and (facts.numbers["ops"] or facts.numbers["sent"]):
        found.add(
            "journals",
            "the table journals is empty, though operations are recorded",
            "journals",
            "ops",
            "sends",
        )
    for row in facts.journals:
        name = f"journal {row['journal']}"
        if row["missing_lines"]:
            found.add(
                name, f"{name} lacks {plural(row['missing_lines'], 'line')}", "sends", "ops", "journals"
            )
        elif not row["unbroken"]:
            found.add(
                name,
                f"{name} had {row['ops']} operations, and the table ops has {row['counted']}",
                "sends",
                "ops",
                "journals",
            )
        elif row["role"] != Role.WORKER.value and not row["ended"]:
            # A worker may be killed, and another goes on; these have nobody in their place.
            found.add(name, f"{name} breaks off: its {row['role']} did not come to its end")
    for journal in facts.numbers["unknown_journals"] or ():
        found.add(
            f"journal {journal}",
            f"records bear the name of journal {journal}, of which nothing is here",
            "sends",
            "ops",
        )
    for journal in facts.numbers["cut_journals"] or ():
        found.add(
            f"end of journal {journal}",
            f"journal {journal} has no end, and records name operations after its last line: lines of it are gone",
            "sends",
            "ops",
        )
    for table, count in (("sends", "sends_here"), ("claims", "claims")):
        had = sum(row.get(table, 0) for row in facts.journals)
        if facts.journals and had != facts.numbers[count]:
            words = (
                f"the table {table} holds {plural(facts.numbers[count], 'row')}, and the journals had {had}"
            )
            found.add(f"rows of {table}", words, table, "journals")
    if not facts.numbers["sent"] and facts.numbers["values"]:
        found.add("sends", "the table sends is empty, though records were found", "sends")


def _final_reads(facts: EvidenceCounts, found: MissingEvidence) -> None:
    """Whatever a run is: nothing that was not read to its end can be judged."""
    if not facts.partitions:
        found.add("partitions", "the table partitions is empty", "partitions")
    data = {tp for tp, row in facts.partitions.items() if not row["internal"]}
    final = [row for row in facts.ends if row.get("role") != Role.OBSERVER.value]
    for isolation in Isolation:
        ends = {row["tp"]: row for row in final if row["isolation"] == isolation.value}
        table, column = ("polls", "given") if isolation is Isolation.READ_COMMITTED else ("records", "found")
        if data and not ends:
            found.add(
                f"final {isolation.value}", f"no final reader read the topics {isolation.value}", "ends"
            )
            continue
        for tp in sorted(data):
            name = f"final {isolation.value} read of {facts.name(tp)}"
            row = ends.get(tp)
            if row is None:
                found.add(name, f"no final reader read {facts.name(tp)} {isolation.value}")
            elif row.get("sentinel_offset") is None:
                found.add(
                    name,
                    f"the final {isolation.value} reader ({row['journal']}) did not come to the end of "
                    f"{facts.name(tp)}: it stopped at offset {row['next']}",
                )
            elif row["next"] <= row["sentinel_offset"]:
                found.add(
                    name,
                    f"the table ends says that the final {isolation.value} reader ({row['journal']}) met the "
                    f"end of {facts.name(tp)} at offset {row['sentinel_offset']}, and read nothing from "
                    f"offset {row['next']} on",
                    "ends",
                )
            elif row["read"] and not facts.partitions[tp].get(column):
                found.add(
                    table,
                    f"the table {table} holds nothing of {facts.name(tp)}, where the final {isolation.value} "
                    f"reader ({row['journal']}) read {row['read']} records",
                    table,
                )
            elif isolation is Isolation.READ_COMMITTED and (words := _not_to_the_end(facts, tp, row)):
                found.add(name, f"the final {isolation.value} reader ({row['journal']}) {words}", table)
            elif row["read"] != (there := facts.partitions[tp].get(column, 0)):
                found.add(
                    name,
                    f"the table {table} holds {there} records of {facts.name(tp)}, where the final "
                    f"{isolation.value} reader ({row['journal']}) read {row['read']} records",
                    table,
                )


def _not_to_the_end(facts: EvidenceCounts, tp: int, row: Row) -> str:
    """Return what is missing from a read-committed read that met its end, in words; empty if nothing is."""
    name, last = facts.name(tp), facts.partitions[tp].get("last_stable", -1)
    if row["next"] <= last:
        return f"stopped at offset {row['next']} of {name}, whose last visible record is at offset {last}"
    if backwards := facts.disorder.get(tp):
        return f"was given {plural(backwards, 'record')} of {name} below the record before"
    return ""


def _expectations(facts: EvidenceCounts, found: MissingEvidence) -> None:
    """Compare the table expected with the number of rows that the final readers wrote for each partition."""
    written: dict[int, int] = {}
    for row in facts.ends:
        if row.get("expected") is not None:
            written[row["tp"]] = written.get(row["tp"], 0) + row["expected"]
    for tp, count in sorted(written.items()):
        if tp in facts.partitions and (there := facts.partitions[tp]["expected"]) != count:
            found.add(
                f"expected of {facts.name(tp)}",
                f"the table expected holds {plural(there, 'row')} for the inputs of {facts.name(tp)}, and the final "
                f"reader wrote {count}",
                "expected",
            )


def _nothing_done(facts: EvidenceCounts, promises: Promises, found: MissingEvidence) -> None:
    numbers = facts.numbers
    workers = facts.have(Role.WORKER)
    unjournaled = any(stage.get("journaled") is False for stage in facts.stages)
    journaled = (
        bool(facts.stages)
        and not unjournaled
        and (workers or any(stage["stage"] in promises.journaled for stage in facts.stages))
    )
    if not facts.total("read"):
        found.add(
            "nothing read", "the final read-committed readers were given no record: nothing was read", "polls"
        )
    if unjournaled and not facts.outputs_of_any():
        found.add("nothing committed", "no output is visible: nothing was committed")
    if not unjournaled and not numbers["effective_of_stages" if facts.stages else "effective"]:
        found.add("nothing committed", "no operation is known to have taken effect: nothing was committed")
    if facts.stages and not facts.total("inputs"):
        found.add("no inputs", "no input is visible: nothing was there to be processed")
    consumed = facts.total("consumed")
    if journaled and not consumed:
        found.add("nothing consumed", "no worker was given any input: nothing was consumed", "polls")
    bound = {stage["stage"] for stage in facts.stages} - set(promises.free_stages)
    if journaled and consumed and not numbers["assignments"]:
        found.add("assignments", "the table assignments is empty, though inputs were read", "assignments")
    if journaled and consumed and bound:
        if not numbers["expected"] and not numbers["sums"]:
            found.add("expected", "the table expected is empty, though inputs were read", "expected")
        for stage in sorted(bound - facts.due) if facts.due else ():
            found.add(
                f"expected of {stage}",
                f"nothing says what the inputs of stage {stage} must lead to",
                "expected",
            )
        if not numbers["claims"] and facts.total("commits"):
            found.add("claims", "the table claims is empty, though offsets were committed", "claims")
    for row in sorted(facts.groups, key=lambda one: (one["group"], one["tp"])):
        found.add(
            f"group {row['group']}",
            f"nobody says from where group {row['group']} read {facts.name(row['tp'])}, which it has committed "
            f"up to offset {row['final']}: inputs that it left out could not be told",
            "assignments",
        )


def _progress(facts: EvidenceCounts, run: StoredRun, promises: Promises, found: MissingEvidence) -> None:
    """Note the partitions of which a group has committed more than there is, or less than all inputs, though its
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
            of = f"group {group} of stage {stage['stage']}"
            words = ""
            if final is not None and row["logged"] and final > row["log_end"]:
                words = f"{of} has committed offset {final} of {name}, whose log ends at {row['log_end']}"
            elif final is None and run.drained:
                words = (
                    f"{of} has committed no offset of {name}, which holds {plural(row['stable_inputs'], 'input')}: "
                    "it is not known which were processed"
                )
            elif final is not None and final <= last and run.drained:
                words = (
                    f"{of} has committed {name} up to offset {final}, and the last input there is at offset {last}, "
                    "though the stage was said to have taken all of its inputs"
                )
            if words:
                found.add(f"progress of {group} in {name}", words)


def _contradictions(facts: EvidenceCounts, found: MissingEvidence) -> None:
    """Note what no run can have left: one thing twice, or two leaders."""
    for table, count in (("ops", "ops_twice"), ("sends", "sent_twice")):
        if twice := facts.numbers[count]:
            found.contradicts(table, f"the table {table} has {plural(twice, 'row')} twice", table)
    for table, column in (("batches", "log_twice"), ("records", "record_twice"), ("offsets", "commit_twice")):
        for tp, row in sorted(facts.partitions.items()):
            if twice := row.get(column):
                words = f"the table {table} has {plural(twice, 'offset')} of {facts.name(tp)} twice"
                found.contradicts(table, words, table)
    if shared := facts.numbers["shared_producers"]:
        words = f"the table transactions gives {plural(shared, 'producer id')} to several transactional ids"
        found.contradicts("producer ids", words, "transactions")
    for row in facts.replicas:
        if not row["agrees"]:
            words = f"the tables replicas and batches do not agree on the leader of {facts.name(row['tp'])}"
            found.contradicts("leaders", words, "replicas", "batches")
    leaders = Counter(row["tp"] for row in facts.replicas if row["leader"])
    for tp, leading in sorted(leaders.items()):
        if leading > 1:
            words = f"the table replicas has {leading} leaders of {facts.name(tp)}"
            found.contradicts("replicas", words, "replicas", "batches")


def _logs(facts: EvidenceCounts, run: StoredRun, promises: Promises, found: MissingEvidence) -> None:
    acknowledged = facts.numbers["acknowledged"]
    if facts.partitions and not any(row["logged"] for row in facts.partitions.values()):
        found.add("replicas", "the table replicas names no leader with a whole log", "replicas", "batches")
    for tp, row in sorted(facts.partitions.items()):
        name = facts.name(tp)
        if row["topic"] in promises.tables:
            continue  # a store has it, and no broker
        if "replicas" not in found.reasons and not row["logged"]:
            found.add(f"log of {name}", f"the leader's log of {name} is not here, or is damaged", "replicas")
        if damaged := row.get("unreadable"):
            broker, end, mark = (damaged.get(key) for key in ("broker", "log_end", "high_watermark"))
            found.add(
                f"replica {broker} of {name}",
                f"the log of {name} on broker {broker} cannot be read from offset {end} on, and its high "
                f"watermark is {'not known' if mark is None else mark}",
            )
        if row["holes"] and not row["compacted"]:
            found.add(
                f"holes in {name}",
                f"the leader's log of {name} lacks {plural(row['holes'], 'offset')}, though nothing was compacted",
            )
        if row.get("read_not_in_log"):
            found.add(
                "batches",
                f"{row['read_not_in_log']} records of {name} were read that its log does not hold",
                "batches",
            )
        if row.get("named_by_some") and run.journaled:  # other programs may forward the header of their input
            found.add(
                f"names in {name}",
                f"{plural(row['named_by_some'], 'record')} of {name} came to one reader without the name that others "
                "were given",
            )
        if row.get("unread") and not row["internal"]:
            found.add(
                "records",
                f"the log of {name} holds {row['unread']} records that the final "
                "read-uncommitted reader did not give",
                "records",
            )
        if row.get("beyond"):
            found.add(
                f"beyond the end of {name}",
                f"the log of {name} holds {row['beyond']} records at or above offset {row['ru_next']}, where "
                "the final read-uncommitted reader ended: they were written after the last of all",
                "records",
            )
    if acknowledged and facts.logs(TRANSACTIONS_TOPIC) and not facts.numbers["transactions"]:
        found.add(
            "transactions", "the table transactions is empty, though transactions committed", "transactions"
        )
    if facts.numbers["claiming"] and facts.logs(OFFSETS_TOPIC) and not facts.total("commits"):
        found.add("offsets", "the table offsets is empty, though offsets were committed", "offsets")


def _offsets_within(facts: EvidenceCounts, promises: Promises, found: MissingEvidence) -> None:
    """Note transactions that claim inputs for a group whose offset commits are all outside any transaction."""
    logs = facts.logs(OFFSETS_TOPIC)
    outside = facts.numbers["claiming_outside"]
    if promises.offsets_within and bool(logs) and all(logs) and outside:
        found.add(
            "offsets within",
            f"{plural(outside, 'transaction')} claimed inputs for a group that committed no offset within a "
            "transaction: it is not known whether outputs and offsets were committed together",
        )


def _edges(name: str, row: Row, found: MissingEvidence) -> None:
    """A partition of the pipeline is whole from offset 0 to what the final reader was given last."""
    if row["internal"]:
        return
    mark, end, following = (row.get(edge) or 0 for edge in ("high_watermark", "log_end", "rc_next"))
    start = max(row.get("rc_first") or 0, row.get("ru_first") or 0)
    if row["compacted"] and row["sums_alone"]:
        pass  # a sum is judged by the last record of its key, which the log cleaner keeps
    elif row["compacted"]:
        words = f"{name} is compacted: what is missing from it proves nothing"
        found.add(f"edges of {name}", words, COMPLETE_PARTITIONS)
    elif start > 0:
        words = f"the log of {name} begins at offset {start}: what stood before is gone"
        found.add(f"edges of {name}", words, COMPLETE_PARTITIONS)
    elif row["logged"] and row.get("high_watermark") is not None and not following <= mark <= end:
        words = (
            f"the high watermark of {name} is {mark}, its log ends at {end}, and the final reader was given "
            f"all below {following}"
        )
        found.add(f"edges of {name}", words, "replicas")
