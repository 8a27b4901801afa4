"""The cause of a finding in words: which fault or mistake, which process, and what should have stopped it.

Only what the evidence shows is said. A time alone proves no cause: a fault that merely came before a finding is called
the last fault before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from harness.common.wording import join_words, printable, seconds
from harness.model.vocabulary import Guarantee, Outcome
from harness.record.protocol_journal import JournaledRequest
from harness.record.table_reader import Row
from harness.results.example import Example
from harness.results.verdict import FaultReport
from reports.story.model import TICK_NS
from reports.story.roles import is_process
from reports.story.run import Story
from reports.story.subjects import Attempt, changed_requests, offset_partitions_of


@dataclass(frozen=True)
class FoundCause:
    """Why a finding happened. Findings with the same `key` have the same cause."""

    key: str
    sentences: Sequence[str]
    fault: int | None = None  # its number, counted from 1; None: no fault
    known: bool = True  # the evidence shows more than what came before
    summary: str = ""  # what came before the finding, for the summary of the run; empty: nothing is known
    late: int | None = None  # the number of the request that arrived late
    unmarked: tuple[int, int] | None = None
    """A partition without the marker of its transaction, and when the transaction was completed."""


NOT_KNOWN = "not known"
MOST_CHANGED = 3
"""At most this many further requests are named that rules changed at the same time."""


def find_cause(story: Story, example: Example, attempts: Sequence[Attempt]) -> FoundCause:
    """Return the cause of a finding, as far as the evidence shows it."""
    planted = _planted(story)
    outside = _outside(story, example, attempts) or _without_transactions(story, attempts)
    for find in (_late_request, _unmarked, _zombie, _other_end, _death):
        cause = find(story, attempts)
        if cause is not None:
            sentences = [*planted, *cause.sentences, *(outside.sentences if outside else ())]
            return replace(cause, key=outside.key if outside else cause.key, sentences=sentences)
    if outside is not None:
        return FoundCause(outside.key, [*planted, *outside.sentences])
    if planted:
        return FoundCause("planted", planted)
    return _changed_meanwhile(story, attempts) or _before(story, example, attempts)


def at(time_ns: float) -> str:
    """Return a time of the run as in the diagram."""
    return f"{time_ns / 1e9:,.3f} s"


def _planted(story: Story) -> list[str]:
    options = story.tables.settings.get("options")
    defect = options.get("defect") if isinstance(options, dict) else None
    return [f"The mistake was planted: --defect {printable(defect, 60)}."] if defect else []


# A request that came late, or twice


def _late_request(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A request of an earlier transaction was delivered in an attempt, or a request behind the end of its own."""
    for attempt in attempts:
        if attempt.transactional_id is None:
            continue
        for each in changed_requests(story, [attempt.transactional_id], [attempt]):
            request = each.request
            kept = request.delivered_ns is not None and each.reason
            if not kept or attempt.begin_ns is None or not attempt.lasts_at(request.delivered_ns):
                continue
            if request.errors if request.broker_errors is None else request.broker_errors:
                continue  # the broker refused it, so it had no effect
            if request.seen_ns < attempt.begin_ns:
                return _late_for(story, attempt, each, attempts)
            decided_ns = _decision(story, attempt)
            if (
                request.api == "Produce"
                and decided_ns is not None
                and decided_ns <= (request.delivered_ns or 0)
            ):
                return _behind_the_end(story, attempt, each)
    return None


def _states(story: Story, attempt: Attempt) -> Iterator[tuple[int, Row]]:
    """Yield the states of the attempt's transactional id in the transaction log, with their times."""
    for row in story.states:
        if row["transactional_id"] == attempt.transactional_id and row["at_ns"] is not None:
            yield row["at_ns"], row


def _decision(story: Story, attempt: Attempt) -> int | None:
    """Return when the coordinator decided to end the attempt's transaction. None: it did not, or it is not known."""
    for at_ns, row in _states(story, attempt):
        if str(row["state"]).startswith("Prepare") and attempt.lasts_at(at_ns):
            return at_ns
    return None


def _late_for(
    story: Story, attempt: Attempt, late: JournaledRequest, attempts: Sequence[Attempt]
) -> FoundCause:
    request = late.request
    assert request.delivered_ns is not None
    own = story.operation_at(attempt.transactional_id or "", request.seen_ns) or {}
    name = f"{printable(own['name'], 60)}, " if own.get("f") == "txn" and own["name"] else ""
    sentences = [
        f"{late.title} belongs to {name}an earlier transaction than {attempt.words}.",
        f"It {_arrived(late)} in {attempt.words}: {_effect(story, attempt, late)}.",
    ]
    sentences += _retried(story, late)
    before, after = (_epoch(story, attempt, each) for each in (request.seen_ns, request.delivered_ns))
    if before is not None and before == after:
        sentences.append(
            f"The producer epoch was {after} in both transactions, and nothing else in the request says to which of"
            " them it belongs (KAFKA-17754, KIP-890)."
        )
    elif before is not None and after is not None:
        sentences.append(f"The producer epoch rose from {before} to {after} meanwhile, and did not stop it.")
    death = _death(story, attempts)
    sentences += death.sentences if death else ()
    return _late_cause(story, late, sentences)


def _late_cause(story: Story, late: JournaledRequest, sentences: Sequence[str]) -> FoundCause:
    fault = _fault_number(story, late)
    summary = f"{late.request.api} requests arrived late"
    key, number = f"late {late.request.api} by {late.rule}", late.request.number
    return FoundCause(key, sentences, fault, summary=summary, late=number)


def _arrived(late: JournaledRequest) -> str:
    delivered_ns = late.request.delivered_ns or 0
    held = seconds((delivered_ns - late.request.seen_ns) / 1e9)
    return f"was {late.action} for {held}, and arrived at {at(delivered_ns)}"


def _effect(story: Story, attempt: Attempt, late: JournaledRequest) -> str:
    """Say what a late request did to the attempt's transaction, as far as the transaction log shows it."""
    delivered_ns, answered_ns = late.request.delivered_ns or 0, late.answered_ns
    if answered_ns is None:
        return "the broker gave no answer"
    states = [
        str(row["state"])
        for at_ns, row in _states(story, attempt)
        if at_ns >= delivered_ns - TICK_NS and attempt.lasts_at(at_ns)
    ]
    if late.request.api != "EndTxn" or not states or not states[0].startswith("Prepare"):
        return "the broker accepted it"
    verb = "aborted" if late.request.asked == "abort" else "committed"
    rest = f". The rest of {attempt.words} was another transaction for it" if "Ongoing" in states else ""
    return f"the coordinator {verb} what {attempt.words} had sent until then{rest}"


def _retried(story: Story, late: JournaledRequest) -> Iterator[str]:
    """Say that the client had sent the same request again, and that it was answered first."""
    journal = story.requests_of(late.request.transactional_ids)
    retries = journal.retries()
    for each in journal.passed:
        earlier, answered_ns = retries.get(each.request.number), each.answered_ns
        if earlier is None or earlier.request.number != late.request.number or answered_ns is None:
            continue
        if answered_ns <= (late.request.delivered_ns or 0):
            answer = "succeeded" if each.answer == "NONE" else f"was answered {each.answer}"
            when = at(each.request.returned_ns or answered_ns)
            yield f"Its client had got no answer, and had sent the same again: {each.name} {answer} at {when}."


def _behind_the_end(story: Story, attempt: Attempt, late: JournaledRequest) -> FoundCause:
    sentence = (
        f"{late.title} {_arrived(late)}, when the coordinator had decided to end {attempt.words}: "
        f"{_effect(story, attempt, late)}."
    )
    stop = (
        "The brokers should have verified that a transaction was open for it (KIP-890, "
        "transaction.partition.verification.enable)."
    )
    return _late_cause(story, late, [sentence, stop])


def _other_end(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A rule answered the request to end an attempt, which was never delivered, and another one ended it otherwise."""
    for attempt in attempts:
        for each in _answered_by_rule(story, attempt):
            request, journal = each.request, story.requests_of(each.request.transactional_ids)
            later = sorted(
                (other for other in journal.passed if other.request.api == "EndTxn"),
                key=lambda other: other.request.seen_ns,
            )
            later = [other for other in later if request.seen_ns < other.request.seen_ns]
            if request.api != "EndTxn" or not later or not attempt.lasts_at(later[0].request.seen_ns):
                continue
            end = later[0]
            answered_ns = end.answered_ns
            if end.request.asked == request.asked or end.request.errors or answered_ns is None:
                continue
            verb = "aborted" if end.request.asked == "abort" else "committed"
            sentences = [
                f"{each.title} was answered {each.answer} by {each.by} at {at(each.answered_ns or 0)}.",
                f"It was never delivered, so {attempt.words} stayed open.",
                f"Its client went on in it, and {end.name} {verb} all of it at {at(answered_ns)}.",
                *_passed(story, attempt, attempts),
            ]
            number = _fault_number(story, each)
            summary = "" if number is None else story.faults[number - 1].struck
            return FoundCause(f"other end by {request.rule}", sentences, number, summary=summary)
    return None


def _answered_by_rule(story: Story, attempt: Attempt) -> list[JournaledRequest]:
    """Return the requests in an attempt that rules answered with errors and never delivered."""
    ids = [attempt.transactional_id] if attempt.transactional_id else []
    return [
        each
        for each in (changed_requests(story, ids, [attempt]) if ids else ())
        if each.request.delivered_ns is None and each.request.errors
    ]


def _passed(story: Story, attempt: Attempt, attempts: Sequence[Attempt]) -> Iterator[str]:
    """Say which later attempt committed the offsets past the inputs of an attempt."""
    others = {position for other in attempts if other != attempt for position in other.records}
    for row in story.offset_commits({tp for tp, _ in attempt.inputs}):
        if (row["log_tp"], row["log_offset"]) in others:
            at_ns = story.tables.at_ns(row["timestamp_ms"])
            when = "" if at_ns is None else f" at {at(at_ns)}"
            past = f"offset {row['committed']} of {story.tables.name(row['tp'])}"
            yield f"Group {printable(row['group'], 60)} went past the input{when}: it committed {past}."


def _changed_meanwhile(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """Name the first request of an attempt that a rule answered with an error or whose response a client did not get,
    and the changed ones that were under way then. That they are the cause is not known.
    """
    for attempt in attempts:
        ids = [attempt.transactional_id] if attempt.transactional_id else []
        changed = changed_requests(story, ids, [attempt]) if ids else []
        unreturned = [
            each for each in changed if each.request.returned_ns is None or each.request.broker_errors
        ]
        first = next(iter(_answered_by_rule(story, attempt) or unreturned), None)
        if first is None:
            continue
        others = [
            each
            for each in changed
            if each is not first
            and each.request.seen_ns <= (first.answered_ns or first.last_ns) + TICK_NS
            and each.last_ns >= first.request.seen_ns
        ]
        described = [f"{each.describe()}." for each in [first, *others[:MOST_CHANGED]]]
        sentences = [f"The cause is not known. Rules changed requests in {attempt.words}:", *described]
        key = f"{NOT_KNOWN}: {attempt.process}, {attempt.name or attempt.begin_ns}"
        return FoundCause(key, sentences, _fault_number(story, first), known=False)
    return None


def _epoch(story: Story, attempt: Attempt, at_ns: int) -> int | None:
    """Return the producer epoch of the attempt's transactional id at a time."""
    epoch = None
    for update_ns, row in _states(story, attempt):
        if update_ns > at_ns:
            break
        epoch = epoch if row["epoch"] is None else row["epoch"]
    return epoch


# A marker that is missing


def _unmarked(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """The transaction of an attempt was completed, and no marker was written for it to the partition of a record."""
    for attempt in attempts:
        completion = _completion(story, attempt)
        if completion is None:
            continue
        prepared_ns, completed_ns, next_ns = completion
        for tp, offset in attempt.records:
            batch = story.batch((tp, offset))
            marker_ns = None if batch is None else story.tables.at_ns(batch["marker_ms"])
            if batch is None or (marker_ns is not None and marker_ns <= next_ns + TICK_NS):
                continue
            # A batch that came behind the marker of its transaction lacks none.
            markers_ns = story.markers_ns(tp, batch["producer_id"])
            if not any(prepared_ns - TICK_NS <= each <= next_ns + TICK_NS for each in markers_ns):
                cause = _without_marker(story, attempt, tp, completed_ns, marker_ns)
                return replace(cause, unmarked=(tp, completed_ns))
    return None


def _completion(story: Story, attempt: Attempt) -> tuple[int, int, float] | None:
    """Return when the attempt's transaction was prepared and completed, and when the next one of its id began.

    A client may begin a transaction before the one before is complete, so the states before the first `Ongoing` are
    those of the one before.
    """
    begun, prepared_ns, completed_ns = False, None, None
    for at_ns, row in _states(story, attempt):
        state = str(row["state"])
        if attempt.begin_ns is None or at_ns < attempt.begin_ns - TICK_NS:
            continue
        if state == "Ongoing":
            if prepared_ns is not None and completed_ns is not None:
                return prepared_ns, completed_ns, at_ns
            begun = True
        elif begun and state.startswith("Prepare"):
            prepared_ns = at_ns
        elif begun and state.startswith("Complete"):
            completed_ns = at_ns
    return None if prepared_ns is None or completed_ns is None else (prepared_ns, completed_ns, inf)


def _without_marker(
    story: Story, attempt: Attempt, tp: int, completed_ns: int, marker_ns: int | None
) -> FoundCause:
    partition = story.tables.name(tp)
    sentences = [
        f"The coordinator completed {attempt.words} at {at(completed_ns)}, and wrote no marker for it to {partition}."
    ]
    if marker_ns is None:
        sentences.append("No later marker of its producer is there, so its records stay open.")
    else:
        sentences.append(
            f"The next marker of its producer there, at {at(marker_ns)}, is that of a later transaction, and decides "
            "these records, too."
        )
    skipped = [
        each
        for each in story.skipped_markers
        if each.transactional_id == attempt.transactional_id
        and partition.replace("/", "-") in each.partitions
        and each.at_ns <= completed_ns + TICK_NS
    ]
    if skipped:
        sentences.append(
            f"The log of {skipped[-1].broker} says at {at(skipped[-1].at_ns)} that it found no leader of {partition}, "
            "and skips the marker because the partition is likely deleted (KAFKA-20734)."
        )
    for number, fault in enumerate(story.faults, 1):
        end_s = float("inf") if fault.end_s is None else fault.end_s
        if (
            fault.acted
            and fault.details.keys() & {"broker", "brokers", "topic"}
            and fault.start_s * 1e9 - TICK_NS <= completed_ns <= end_s * 1e9
        ):
            until = "" if fault.end_s is None else f" until {at(fault.end_s * 1e9)}"
            sentences.append(
                f"At that time, {printable(fault.struck, 200)}: from {at(fault.start_s * 1e9)}{until}."
            )
            return FoundCause("no marker", sentences, number, summary=fault.struck)
    return FoundCause("no marker", sentences)


# A process that was paused or died


def faults_of_processes(story: Story, kind: str) -> Iterator[tuple[int, FaultReport, str, int]]:
    """Yield the number, the process and the time of each fault of a kind (`pause`, `kill`) of a process."""
    for number, fault in enumerate(story.faults, 1):
        worker = fault.details.get("worker", "")
        if fault.acted and fault.fault.startswith(kind) and worker:
            yield number, fault, worker, round(fault.start_s * 1e9)


def _zombie(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A process was paused in an attempt and continued it, or did again what another one had done in the pause."""
    for number, fault, worker, start_ns in faults_of_processes(story, "pause"):
        resumed_ns = None if fault.end_s is None else round(fault.end_s * 1e9)
        for attempt in attempts:
            others = [other for other in attempts if other.process != attempt.process]
            in_the_pause = resumed_ns is not None and any(
                start_ns <= (other.begin_ns or 0) <= resumed_ns <= (attempt.begin_ns or 0) for other in others
            )
            if is_process(worker, attempt.process) and (attempt.lasts_at(start_ns) or in_the_pause):
                sentences = [
                    _paused(fault, attempt, "" if in_the_pause else f" in {_which(attempt)}"),
                    *_taken_over(story, others, "Meanwhile"),
                    *_not_stopped(story, attempt, others),
                ]
                return FoundCause(f"zombie {worker}", sentences, number, summary=fault.struck)
    return None


def _paused(fault: FaultReport, attempt: Attempt, where: str) -> str:
    until = "" if fault.end_s is None else f", and resumed at {at(fault.end_s * 1e9)}"
    own = (
        f", with the transactional id {attempt.transactional_id}"
        if attempt.transactional_id and where
        else ""
    )
    return f"{attempt.process} was paused at {at(fault.start_s * 1e9)}{where}{own}{until}."


def _which(attempt: Attempt) -> str:
    return attempt.name or ("its transaction" if attempt.transactional else "its work")


def _taken_over(story: Story, others: Sequence[Attempt], when: str) -> Iterator[str]:
    for other in others[:1]:
        times = [at(each) for each in (other.begin_ns, _end_ns(story, other)) if each is not None]
        yield f"{when} {other.process} processed the same input{', from ' if times else ''}{' to '.join(times)}."


def _end_ns(story: Story, attempt: Attempt) -> int | None:
    """Return the end of an attempt that is drawn: the response, or without journals the coordinator's decision."""
    return attempt.decided_ns if story.by_logs else attempt.end_ns


def _not_stopped(story: Story, attempt: Attempt, others: Sequence[Attempt]) -> Iterator[str]:
    """Say why neither the producer epoch nor the generation of the group stopped the zombie."""
    own, ended_ns = attempt.transactional_id, _end_ns(story, attempt)
    if ended_ns is not None:
        how = {Outcome.OK.value: "was committed", Outcome.FAIL.value: "was aborted"}.get(
            attempt.outcome, "ended"
        )
        what = f"its transaction {how}" if own else "its work ended"
        yield f"Then {attempt.process} went on, and {what} at {at(ended_ns)}."
    if own is None:
        yield "It used no transaction, so nothing could stop its outputs."
        return
    committed = attempt.outcome == Outcome.OK.value
    if committed and others and all(other.transactional_id != own for other in others):
        epoch = f" {attempt.producer[1]}" if attempt.producer else ""
        used = [f"{other.process} used {other.transactional_id or 'none'}" for other in others]
        yield (
            f"The producer epoch{epoch} of {attempt.process} was still valid, because no other producer had"
            f" initialised {own}: {join_words(dict.fromkeys(used))}."
        )
    client = story.tables.metadata.program_clients.get(attempt.process)
    without_generation = None if client is None else client.without_generation
    if without_generation:
        yield (
            f"{attempt.process} sent its offsets without the generation of its consumer. So the group could not see"
            " that they came from a member that it had removed (KIP-447)."
        )
    elif without_generation is not None:
        yield f"{attempt.process} sent its offsets with the generation of its consumer."
    elif story.by_logs:
        yield f"Whether {attempt.process} sent its offsets with the generation of its consumer is not known."


def _death(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A process was killed in an attempt."""
    for number, fault, worker, start_ns in faults_of_processes(story, "kill"):
        for attempt in attempts:
            if is_process(worker, attempt.process) and (
                attempt.lasts_at(start_ns) or _just_before(attempt, start_ns)
            ):
                ended_ns = start_ns if attempt.end_ns is None else attempt.end_ns
                when = "in" if attempt.lasts_at(start_ns) else f"{seconds((start_ns - ended_ns) / 1e9)} after"
                others = [other for other in attempts if other.process != attempt.process]
                sentences: list[str] = [
                    f"{attempt.process} was killed at {at(fault.start_s * 1e9)}, {when} {_which(attempt)}.",
                    *_taken_over(story, others, "Then"),
                ]
                return FoundCause(f"death of {worker}", sentences, number, summary=fault.struck)
    return None


JUST_NS = 1_000_000_000


def _just_before(attempt: Attempt, time_ns: int) -> bool:
    return attempt.end_ns is not None and 0 <= time_ns - attempt.end_ns <= JUST_NS


def _outside(story: Story, example: Example, attempts: Sequence[Attempt]) -> FoundCause | None:
    """The inputs' offsets were committed outside transactions, though the outputs were sent in transactions."""
    tps = offset_partitions_of(story, example)
    transactional = [attempt for attempt in attempts if attempt.transactional]
    commits: list[Row] = list(story.offset_commits(tps)) if transactional else []
    if not commits or any(row["transactional"] for row in commits):
        return None
    group = printable(commits[0]["group"], 60)
    sentence = (
        f"The offsets of group {group} are committed outside the transactions that have the outputs. So outputs and "
        "offsets do not take effect together."
    )
    return FoundCause("offsets outside", [sentence])


def _without_transactions(story: Story, attempts: Sequence[Attempt]) -> FoundCause | None:
    """The outputs are in no transactions, though the run promises that they take effect exactly once."""
    workload, run = (story.tables.settings.get(name) for name in ("workload", "run"))
    guarantee = workload.get("guarantee") if isinstance(workload, dict) else None
    promises = run.get("promises") if isinstance(run, dict) else None
    expected = not isinstance(promises, dict) or promises.get("transactions") is not False
    if not story.by_logs or guarantee != Guarantee.EXACTLY_ONCE or not attempts or not expected:
        return None
    if any(attempt.transactional for attempt in attempts):
        return None
    sentence = (
        "Its outputs are in no transaction, though the pipeline promises exactly-once. So outputs and offsets do not "
        "take effect together: see whether the program sets transactional.id (Kafka Streams: processing.guarantee)."
    )
    return FoundCause("no transactions", [sentence])


def _before(story: Story, example: Example, attempts: Sequence[Attempt]) -> FoundCause:
    """Name the last fault before the finding, if there is one."""
    ends = [
        at
        for attempt in attempts
        for at in (attempt.decided_ns, attempt.end_ns, attempt.begin_ns)
        if at is not None
    ]
    moment_s = example.moment_s() if not ends else max(ends) / 1e9
    earlier = [
        (acted_ns, number, fault)
        for number, fault in enumerate(story.faults, 1)
        if fault.acted
        and moment_s is not None
        and (acted_ns := _acted_from_ns(story, fault)) <= moment_s * 1e9
    ]
    removed = list(_removed(story, example, moment_s))
    if not earlier:
        texts = ["The cause is not known: no fault came before it.", *removed]
        return FoundCause(NOT_KNOWN, texts, known=False)
    acted_ns, number, fault = max(earlier, key=lambda each: each[0])
    last = f"{printable(fault.struck, 200)} at {at(acted_ns)}"
    text = f"The cause is not known. The last fault before it: {last}."
    return FoundCause(NOT_KNOWN, [text, *removed], number, known=False)


def _removed(story: Story, example: Example, moment_s: float | None) -> Iterator[str]:
    """Name the last member that a group of the inputs removed before the finding."""
    groups = {row["group"] for row in story.offset_commits(offset_partitions_of(story, example))}
    removals = [
        each
        for each in story.removals
        if each.group in groups and moment_s is not None and each.at_ns <= moment_s * 1e9
    ]
    for each in removals[-1:]:
        yield (
            f"Group {printable(each.group, 60)} removed {printable(each.member, 100)} at {at(each.at_ns)}: "
            f"{printable(each.why, 100)}."
        )


def _acted_from_ns(story: Story, fault: FaultReport) -> float:
    """Return when a fault began to act. That of a rule is when it first changed a request."""
    acted_ns = story.protocol.acted_from_ns(fault.rules)
    return fault.start_s * 1e9 if acted_ns is None else acted_ns


def _fault_number(story: Story, changed: JournaledRequest) -> int | None:
    """Return the number of the fault whose rule changed a request."""
    rule = changed.request.rule
    return next((n for n, fault in enumerate(story.faults, 1) if rule in fault.rules), None)
