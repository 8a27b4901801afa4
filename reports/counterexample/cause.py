"""The cause of a finding in words: which fault or mistake, which process, and what should have stopped it.

Only what the evidence shows is said. A time alone proves no cause: a fault that merely came before a finding is called
the last fault before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.model.vocabulary import Outcome
from harness.record.protocol_journal import JournaledRequest
from harness.results.example import Example
from harness.results.verdict import FaultReport
from harness.results.wording import join_words, printable, seconds
from reports.counterexample.attempts import TICK_NS, Attempt
from reports.counterexample.diagram import changed_requests, is_process
from reports.counterexample.evidence import FindingEvidence
from reports.run_tables import Row


@dataclass(frozen=True)
class FoundCause:
    """Why a finding happened. Findings with the same `key` have the same cause."""

    key: str
    sentences: Sequence[str]
    fault: int | None = None  # its number, counted from 1; None: no fault

    known: bool = True  # the evidence shows more than what came before


NOT_KNOWN = "not known"


def find_cause(evidence: FindingEvidence, example: Example, attempts: Sequence[Attempt]) -> FoundCause:
    """Return the cause of a finding, as far as the evidence shows it."""
    planted = _planted(evidence)
    outside = _outside(evidence, example, attempts)
    for find in (_late_request, _unmarked, _zombie, _changed_response, _death):
        cause = find(evidence, attempts)
        if cause is not None:
            sentences = [*planted, *cause.sentences, *(outside.sentences if outside else ())]
            return FoundCause(outside.key if outside else cause.key, sentences, cause.fault)
    if outside is not None:
        return FoundCause(outside.key, [*planted, *outside.sentences])
    if planted:
        return FoundCause("planted", planted)
    return _before(evidence, example, attempts)


def at(time_ns: float) -> str:
    """Return a time of the run as in the diagram."""
    return f"{time_ns / 1e9:,.3f} s"


def _planted(evidence: FindingEvidence) -> list[str]:
    options = evidence.t.settings.get("options")
    defect = options.get("defect") if isinstance(options, dict) else None
    return [f"The mistake was planted: --defect {printable(defect, 60)}."] if defect else []


# A request that came late, or twice


def _late_request(evidence: FindingEvidence, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A request of an earlier transaction was delivered in an attempt, or a request behind the end of its own."""
    for attempt in attempts:
        if attempt.transactional_id is None:
            continue
        for each in changed_requests(evidence, [attempt.transactional_id], [attempt]):
            request = each.request
            kept = request.delivered_ns is not None and each.reason
            if not kept or attempt.begin_ns is None or not attempt.lasts_at(request.delivered_ns):
                continue
            if request.errors if request.broker_errors is None else request.broker_errors:
                continue  # the broker refused it, so it had no effect
            if request.seen_ns < attempt.begin_ns:
                return _late_for(evidence, attempt, each)
            decided_ns = _decision(evidence, attempt)
            if (
                request.api == "Produce"
                and decided_ns is not None
                and decided_ns <= (request.delivered_ns or 0)
            ):
                return _behind_the_end(evidence, attempt, each)
    return None


def _decision(evidence: FindingEvidence, attempt: Attempt) -> int | None:
    """Return when the coordinator decided to end the attempt's transaction. None: it did not, or it is not known."""
    for row in evidence.states:
        if row["transactional_id"] == attempt.transactional_id and str(row["state"]).startswith("Prepare"):
            at_ns = evidence.t.at_ns(row["update_ms"])
            if attempt.lasts_at(at_ns):
                return at_ns
    return None


def _late_for(evidence: FindingEvidence, attempt: Attempt, late: JournaledRequest) -> FoundCause:
    request = late.request
    assert request.delivered_ns is not None
    held = seconds((request.delivered_ns - request.seen_ns) / 1e9)
    arrived = at(request.delivered_ns)
    sentences = [
        f"{late.title} belongs to an earlier transaction than {attempt.words}.",
        f"It was {late.action} for {held}, and arrived at {arrived} in {attempt.words}: {_answered(late)}.",
    ]
    sentences += _retried(evidence, late)
    before, after = (_epoch(evidence, attempt, each) for each in (request.seen_ns, request.delivered_ns))
    if before is not None and before == after:
        sentences.append(
            f"The producer epoch should have stopped it, but it was {after} in both transactions: nothing in the"
            " request says to which of them it belongs (KAFKA-17754, KIP-890)."
        )
    elif before is not None and after is not None:
        sentences.append(f"The producer epoch rose from {before} to {after} meanwhile, and did not stop it.")
    return FoundCause(f"late {request.api} by {late.rule}", sentences, _fault_number(evidence, late.rule))


def _retried(evidence: FindingEvidence, late: JournaledRequest) -> Iterator[str]:
    """Say that the client had sent the same request again, and that it was answered first."""
    journal = evidence.requests_of(late.request.transactional_ids)
    retries = journal.retries()
    for each in journal.passed:
        earlier, answered_ns = retries.get(each.request.number), each.answered_ns
        if earlier is None or earlier.request.number != late.request.number or answered_ns is None:
            continue
        if answered_ns <= (late.request.delivered_ns or 0):
            yield f"Its client had sent the same again: {each.name} was answered {each.answer} at {at(answered_ns)}."


def _behind_the_end(evidence: FindingEvidence, attempt: Attempt, late: JournaledRequest) -> FoundCause:
    request = late.request
    assert request.delivered_ns is not None
    held = seconds((request.delivered_ns - request.seen_ns) / 1e9)
    sentence = (
        f"{late.title} was {late.action} for {held}, and arrived at {at(request.delivered_ns)}, when its "
        f"coordinator had decided to end {attempt.words}: {_answered(late)}."
    )
    stop = (
        "The brokers should have verified that a transaction was open for it (KIP-890, "
        "transaction.partition.verification.enable)."
    )
    return FoundCause(f"late Produce by {late.rule}", [sentence, stop], _fault_number(evidence, late.rule))


def _answered(late: JournaledRequest) -> str:
    if late.answered_ns is None:
        return "the broker gave no answer"
    return "the broker accepted it"


def _changed_response(evidence: FindingEvidence, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A rule changed a request or response of an attempt in another way."""
    for attempt in attempts:
        ids = [attempt.transactional_id] if attempt.transactional_id else []
        for each in changed_requests(evidence, ids, [attempt]) if ids else ():
            sentence = f"In {attempt.words}, {each.describe()}."
            return FoundCause(
                f"{each.request.api} by {each.rule}", [sentence], _fault_number(evidence, each.rule)
            )
    return None


def _epoch(evidence: FindingEvidence, attempt: Attempt, at_ns: int) -> int | None:
    """Return the producer epoch of the attempt's transactional id at a time."""
    epoch = None
    for row in evidence.states:
        if row["transactional_id"] == attempt.transactional_id and row["epoch"] is not None:
            update_ns = evidence.t.at_ns(row["update_ms"])
            if update_ns is not None and update_ns > at_ns:
                break
            epoch = row["epoch"]
    return epoch


# A marker that is missing


def _unmarked(evidence: FindingEvidence, attempts: Sequence[Attempt]) -> FoundCause | None:
    """The transaction of an attempt was completed, and no marker was written for it to the partition of a record."""
    for attempt in attempts:
        completed_ns, next_ns = _completion(evidence, attempt)
        if completed_ns is None or next_ns is None:
            continue
        for tp, offset in attempt.records:
            batch = evidence.batch((tp, offset))
            marker_ns = None if batch is None else evidence.t.at_ns(batch["marker_ms"])
            late = marker_ns is None or marker_ns > next_ns + TICK_NS
            if batch is not None and late and not _has_marker(evidence, attempt, batch, next_ns):
                return _without_marker(evidence, attempt, tp, completed_ns, marker_ns)
    return None


def _has_marker(evidence: FindingEvidence, attempt: Attempt, batch: Row, next_ns: int) -> bool:
    """Return whether the partition of a batch has a marker for the attempt: then the batch came behind it."""
    times_ns = evidence.markers_ns(batch["tp"], batch["producer_id"])
    from_ns = (_asked_ns(attempt) or 0) - TICK_NS
    return any(from_ns <= marker_ns <= next_ns + TICK_NS for marker_ns in times_ns)


def _asked_ns(attempt: Attempt) -> int | None:
    """Return when the attempt asked for its end, or if that is not known, when it began.

    A client may begin a transaction before the one before is complete and has its markers.
    """
    return attempt.begin_ns if attempt.decided_ns is None else attempt.decided_ns


def _completion(evidence: FindingEvidence, attempt: Attempt) -> tuple[int | None, int | None]:
    """Return when the attempt's transaction was complete, and when the next one of its id began."""
    completed_ns: int | None = None
    from_ns = _asked_ns(attempt)
    for row in evidence.states:
        if row["transactional_id"] != attempt.transactional_id or from_ns is None:
            continue
        at_ns = evidence.t.at_ns(row["update_ms"])
        if at_ns is None or at_ns < from_ns - TICK_NS:
            continue
        if completed_ns is not None and row["state"] == "Ongoing":
            return completed_ns, at_ns
        if completed_ns is None and str(row["state"]).startswith("Complete"):
            completed_ns = row["at_ns"]  # after the markers, unlike the decision
    return completed_ns, None


def _without_marker(
    evidence: FindingEvidence, attempt: Attempt, tp: int, completed_ns: int, marker_ns: int | None
) -> FoundCause:
    partition = evidence.t.name(tp)
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
    for number, fault in enumerate(evidence.faults, 1):
        end_s = float("inf") if fault.end_s is None else fault.end_s
        if (
            fault.acted
            and (fault.details.get("broker") or fault.details.get("brokers"))
            and fault.start_s * 1e9 - TICK_NS <= completed_ns <= end_s * 1e9
        ):
            until = "" if fault.end_s is None else f" until {at(fault.end_s * 1e9)}"
            sentences.append(
                f"At that time, {printable(fault.struck, 200)}: from {at(fault.start_s * 1e9)}{until}."
            )
            return FoundCause("no marker", sentences, number)
    return FoundCause("no marker", sentences)


# A process that was paused or died


def _faults_of_processes(evidence: FindingEvidence, kind: str) -> Iterator[tuple[int, FaultReport, str, int]]:
    """Yield the number, the process and the time of each fault of a kind (`pause`, `kill`) of a process."""
    for number, fault in enumerate(evidence.faults, 1):
        worker = fault.details.get("worker", "")
        if fault.acted and fault.fault.startswith(kind) and worker:
            yield number, fault, worker, round(fault.start_s * 1e9)


def _zombie(evidence: FindingEvidence, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A process was paused in an attempt, and continued afterwards."""
    for number, fault, worker, start_ns in _faults_of_processes(evidence, "pause"):
        for attempt in attempts:
            if is_process(worker, attempt.process) and attempt.lasts_at(start_ns):
                others = [other for other in attempts if other.process != attempt.process]
                sentences = [
                    _paused(fault, attempt),
                    *_taken_over(others),
                    *_not_stopped(evidence, attempt, others),
                ]
                return FoundCause(f"zombie {worker}", sentences, number)
    return None


def _paused(fault: FaultReport, attempt: Attempt) -> str:
    until = "" if fault.end_s is None else f", and resumed at {at(fault.end_s * 1e9)}"
    own = f", with the transactional id {attempt.transactional_id}" if attempt.transactional_id else ""
    return f"{attempt.process} was paused at {at(fault.start_s * 1e9)} in {_which(attempt)}{own}{until}."


def _which(attempt: Attempt) -> str:
    return attempt.name or ("its transaction" if attempt.transactional else "its work")


def _taken_over(others: Sequence[Attempt]) -> Iterator[str]:
    for other in others[:1]:
        yield f"Meanwhile {other.process} processed the same input{_when(other)}."


def _when(attempt: Attempt) -> str:
    if attempt.begin_ns is None:
        return ""
    until = "" if attempt.end_ns is None else f" to {at(attempt.end_ns)}"
    return f", from {at(attempt.begin_ns)}{until}"


def _not_stopped(evidence: FindingEvidence, attempt: Attempt, others: Sequence[Attempt]) -> Iterator[str]:
    """Say why neither the producer epoch nor the generation of the group stopped the zombie."""
    if attempt.end_ns is not None:
        yield f"Then {attempt.process} went on, and its transaction ended at {at(attempt.end_ns)}."
    own = attempt.transactional_id
    if own is None:
        yield "It used no transaction, so nothing could stop its outputs."
        return
    committed = attempt.outcome == Outcome.OK.value
    if committed and others and all(other.transactional_id != own for other in others):
        epoch = f" {attempt.producer[1]}" if attempt.producer else ""
        ids = join_words(sorted({other.transactional_id for other in others if other.transactional_id}))
        yield (
            f"Its producer epoch{epoch} was still valid: an epoch ends when another producer initialises the same "
            f"transactional id, and {ids or 'the others'} is another one."
        )
    client = evidence.t.metadata.program_clients.get(attempt.process)
    without_generation = None if client is None else client.without_generation
    if without_generation:
        yield (
            "It sent its offsets without the generation of its consumer. So the group could not see that they came"
            " from a member that it had removed (KIP-447)."
        )
    elif without_generation is not None:
        yield "It sent its offsets with the generation of its consumer."
    elif evidence.timeline.by_logs:
        yield "Whether it sent its offsets with the generation of its consumer is not known."


def _death(evidence: FindingEvidence, attempts: Sequence[Attempt]) -> FoundCause | None:
    """A process was killed in an attempt."""
    for number, fault, worker, start_ns in _faults_of_processes(evidence, "kill"):
        for attempt in attempts:
            if is_process(worker, attempt.process) and (
                attempt.lasts_at(start_ns) or _just_before(attempt, start_ns)
            ):
                when = "in" if attempt.lasts_at(start_ns) else "right after"
                sentences: list[str] = [
                    f"{attempt.process} was killed at {at(fault.start_s * 1e9)}, {when} {_which(attempt)}.",
                    *_taken_over([other for other in attempts if other.process != attempt.process]),
                ]
                return FoundCause(f"death of {worker}", sentences, number)
    return None


JUST_NS = 1_000_000_000


def _just_before(attempt: Attempt, time_ns: int) -> bool:
    return attempt.end_ns is not None and 0 <= time_ns - attempt.end_ns <= JUST_NS


def _outside(evidence: FindingEvidence, example: Example, attempts: Sequence[Attempt]) -> FoundCause | None:
    """The inputs' offsets were committed outside transactions, though the outputs were sent in transactions."""
    tps = evidence.offset_partitions(example)
    transactional = [attempt for attempt in attempts if attempt.transactional]
    commits: list[Row] = list(evidence.offset_commits(tps)) if transactional else []
    if not commits or any(row["transactional"] for row in commits):
        return None
    group = printable(commits[0]["group"], 60)
    sentence = (
        f"The offsets of group {group} are committed outside the transactions that have the outputs. So outputs and "
        "offsets do not take effect together."
    )
    return FoundCause("offsets outside", [sentence])


def _before(evidence: FindingEvidence, example: Example, attempts: Sequence[Attempt]) -> FoundCause:
    """Name the last fault before the finding, if there is one."""
    ends = [
        at
        for attempt in attempts
        for at in (attempt.decided_ns, attempt.end_ns, attempt.begin_ns)
        if at is not None
    ]
    moment_s = example.moment_s() if not ends else max(ends) / 1e9
    earlier = [
        (number, fault)
        for number, fault in enumerate(evidence.faults, 1)
        if fault.acted and moment_s is not None and fault.start_s <= moment_s
    ]
    if not earlier:
        return FoundCause(NOT_KNOWN, ["The cause is not known: no fault came before it."], known=False)
    number, fault = max(earlier, key=lambda each: each[1].start_s)
    last = f"{printable(fault.struck, 200)} at {at(fault.start_s * 1e9)}"
    text = f"The cause is not known. The last fault before it: {last}."
    return FoundCause(NOT_KNOWN, [text], number, known=False)


def _fault_number(evidence: FindingEvidence, rule: str) -> int | None:
    numbers = [number for number, fault in enumerate(evidence.faults, 1) if fault.fault == rule]
    return numbers[0] if numbers else None
