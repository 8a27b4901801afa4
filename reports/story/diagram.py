"""The counter-example as a sequence of messages between processes, coordinators, partitions and readers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from harness.common.wording import error_code, printable
from harness.model.vocabulary import Outcome
from harness.record.protocol_journal import JOURNAL, JournaledRequest, ProtocolJournal
from harness.record.table_reader import Row, spans
from harness.results.example import Example, PassingCommit
from harness.results.verdict import FaultReport
from reports.story.cause import FoundCause, faults_of_processes
from reports.story.model import EVERYBODY, TICK_NS, Diagram, Kind, Message, Participant, Rank
from reports.story.points import PROXY
from reports.story.roles import is_process, struck_process, successor_of
from reports.story.run import OFFSETS, Position, Story
from reports.story.subjects import (
    Attempt,
    changed_requests,
    offset_partitions_of,
    positions_of,
    related_attempts,
)

MOST_MESSAGES = 36
MARGIN_NS = 1_000_000_000
"""Faults and requests are shown if they were under way at most this long before or after the attempts."""
SUCCESS = "success"
COORDINATORS = "transaction coordinators"
"""The lifeline of the coordinators of several transactional ids."""
HEALED = {"pause": "resumed", "kill": "restarted"}
"""By the first word of a fault of a process: what its end is for the process."""
_SOURCES = {
    Kind.RECORD: "batches",
    Kind.OFFSETS: "offsets",
    Kind.STATE: "transactions",
    Kind.MARKER: "batches",
    Kind.OPEN: "batches",
    Kind.REQUEST: JOURNAL,
    Kind.READ: "polls",
    Kind.UNREAD: "ends",
    Kind.ASSIGNMENT: "assignments",
    Kind.FAULT: "metadata.json",
    Kind.HEAL: "metadata.json",
}
"""The evidence of each kind of message. The others are in the journals, or without them in the transaction log."""
OFFSET_COMMITS = ("TxnOffsetCommit", "OffsetCommit")


def draw_diagram(story: Story, example: Example, attempts: Sequence[Attempt], cause: FoundCause) -> Diagram:
    """Return the diagram of an example. It has no messages if nothing is known about its records."""
    return _Maker(story, example, attempts, cause).diagram()


class _Maker:
    """Makes the diagram of one example."""

    def __init__(
        self, story: Story, example: Example, attempts: Sequence[Attempt], cause: FoundCause
    ) -> None:
        self._story, self._example, self._cause = story, example, cause
        self._related = related_attempts(story, example, attempts) if attempts else []
        together = [*attempts, *self._related]
        self._attempts = sorted(
            together, key=lambda attempt: (attempt.begin_ns is None, attempt.begin_ns or 0)
        )
        self._t = story.tables
        self._ranks: dict[str, Rank] = {}
        times = [at for attempt in attempts for at in (attempt.begin_ns, attempt.end_ns) if at is not None]
        self._from_ns, self._to_ns = min(times, default=0), max(times, default=0)

    def diagram(self) -> Diagram:
        messages = [message for attempt in self._attempts for message in self._attempt(attempt)]
        if not messages:
            return Diagram((), ())
        messages += [*self._passing_commits(), *self._requests(), *self._retry_messages()]
        messages += [*self._assignments(), *self._removals(), *self._reads(), *self._faults()]
        ordered = self._with_second_commit(_in_order(dict.fromkeys(messages)))
        kept = _most_informative(_from_its_begin(ordered))
        used = {name for message in kept for name in (message.sender, message.receiver)} - {EVERYBODY}
        participants = [Participant(name, rank) for name, rank in self._ranks.items() if name in used]
        first = {name: n for n, name in enumerate(self._ranks)}
        participants.sort(key=lambda each: (each.rank, first[each.name]))
        return Diagram(participants, kept, len(ordered) - len(kept))

    def _with_second_commit(self, messages: list[Message]) -> list[Message]:
        """Mark the last commit as bad if several attempts committed the same input."""
        inputs: list[Position] = []
        for attempt in self._attempts:
            batches = [self._story.batch(position) for position in attempt.records]
            if any(b is None or not b["transactional"] or b["marker"] == "commit" for b in batches):
                inputs += attempt.inputs
        commits = [n for n, message in enumerate(messages) if message.text.startswith("commit marker")]
        commits = commits or [n for n, message in enumerate(messages) if message.kind is Kind.RECORD]
        if len(inputs) > len(set(inputs)) and commits:
            messages[commits[-1]] = replace(messages[commits[-1]], bad=True)
        return messages

    def _who(self, name: str, rank: Rank) -> str:
        self._ranks.setdefault(name, rank)
        return name

    def _coordinator(self, transactional_id: str) -> str:
        """Return the lifeline of the coordinator: one for all ids of the diagram."""
        ids = {attempt.transactional_id for attempt in self._attempts} - {None}
        name = COORDINATORS if len(ids) > 1 else f"coordinator of {transactional_id}"
        return self._who(name, Rank.COORDINATOR)

    def _message(
        self, at_ns: int | None, sender: str, receiver: str, text: str, kind: Kind, **marks: bool
    ) -> Message:
        text += " (time adjusted)" if marks.get("adjusted") else ""
        source = _SOURCES.get(kind) or ("transactions" if self._story.by_logs else "ops")
        return Message(at_ns, sender, receiver, printable(text, 90), kind, source=source, **marks)

    # One attempt

    def _attempt(self, attempt: Attempt) -> Iterator[Message]:
        process = self._who(attempt.process, Rank.PROCESS)
        for tp, offset in attempt.inputs:
            source = self._who(self._t.name(tp), Rank.INPUT)
            # Without a journal, no evidence says when the process read it.
            inferred = self._story.by_logs
            text = f"input @{offset}"
            yield self._message(attempt.begin_ns, source, process, text, Kind.INPUT, inferred=inferred)
        begins = "begins a transaction" if attempt.transactional else "begins"
        yield self._message(
            attempt.begin_ns, process, process, f"{begins} {attempt.name}".strip(), Kind.BEGIN
        )
        yield from self._written(attempt, process)
        commits = list(self._offset_commits(attempt))
        for row in commits:
            yield self._offsets(row, process, bad=attempt.transactional and not row["transactional"])
        if attempt.transactional_id is not None:
            yield from self._ended(attempt, process)
            yield from self._markers(attempt, commits)
        elif attempt.outcome and attempt.end_ns is not None:
            yield self._message(attempt.end_ns, process, process, f"ends: {_outcome(attempt)}", Kind.END)

    def _written(self, attempt: Attempt, process: str) -> Iterator[Message]:
        """Yield the records. One whose Produce request a rule changed comes to the protocol proxy first."""
        by_batch: dict[tuple[int, tuple[int | None, bool, bool]], list[int]] = {}
        for tp, offset in attempt.records:
            if self._t.topic(tp) == OFFSETS:  # the committed offset is shown
                continue
            by_batch.setdefault((tp, self._sent(attempt, (tp, offset))), []).append(offset)
        for (tp, (sent_ns, adjusted, inferred)), offsets in by_batch.items():
            partition = self._who(self._t.name(tp), Rank.OUTPUT)
            text = _records(offsets)
            changed = self._changed_produce(attempt, (tp, offsets[0]))
            if changed is None:
                is_earliest = adjusted and not attempt.transactional  # the only time that is known
                text += " (then or later)" if is_earliest else ""
                marks = {"adjusted": adjusted and not is_earliest, "inferred": inferred}
                yield self._message(sent_ns, process, partition, text, Kind.RECORD, **marks)
                continue
            proxy = self._who(PROXY, Rank.PROXY)
            yield self._message(
                changed.request.seen_ns, process, proxy, f"{changed.name}, {text}", Kind.REQUEST
            )
            yield from self._passed(changed, process, partition)

    def _sent(self, attempt: Attempt, position: Position) -> tuple[int | None, bool, bool]:
        """Return when a record was sent, whether this time is adjusted, and whether it is inferred: if the log is not
        stored, the record was sent before the commit.
        """
        batch = self._story.batch(position)
        at_ns, adjusted = (None, False) if batch is None else self._story.written_ns(batch, attempt.begin_ns)
        if at_ns is None:
            known_ns = (attempt.decided_ns, attempt.end_ns, attempt.begin_ns)
            return next((each for each in known_ns if each is not None), None), False, True
        return at_ns, adjusted, False

    def _changed_produce(self, attempt: Attempt, position: Position) -> JournaledRequest | None:
        """Return the Produce request that a rule changed and that has a record, if there is one: the first one of the
        attempt to the leader of the partition after the record was made.
        """
        batch = self._story.batch(position)
        made_ns = None if batch is None else self._t.at_ns(batch["max_timestamp_ms"])
        if batch is None or made_ns is None:
            return None
        for each in self._changed([attempt.transactional_id]):
            request = each.request
            if (
                request.api == "Produce"
                and request.broker == str(batch["broker"])
                and request.seen_ns >= made_ns
            ):
                return each if attempt.lasts_at(request.seen_ns) else None
        return None

    def _passed(self, changed: JournaledRequest, process: str, target: str) -> Iterator[Message]:
        """Yield what happened to a changed request after it came to the protocol proxy."""
        request, proxy = changed.request, PROXY
        acts = [event for event in changed.events if event.event not in ("released", "answered", "lost")]
        if acts:
            yield self._message(acts[0].at_ns, proxy, proxy, changed.action, Kind.REQUEST)
        if request.client_gone_ns is not None:
            yield self._message(request.client_gone_ns, proxy, process, "connection ended", Kind.REQUEST)
        if request.delivered_ns is not None:
            late = "late: " if acts and request.delivered_ns > acts[0].at_ns else ""
            text, bad = f"{late}{changed.name}", request.number == self._cause.late
            yield self._message(request.delivered_ns, proxy, target, text, Kind.REQUEST, bad=bad)
        answered_ns, returned_ns = request.answered_ns, request.returned_ns
        if answered_ns is not None and (returned_ns is None or any(a.at_ns >= answered_ns for a in acts)):
            gone = "; the client is gone" if changed.lost_client else ""
            answer = ", ".join(request.broker_errors or request.errors) or SUCCESS
            yield self._message(answered_ns, target, proxy, f"{answer}{gone}", Kind.REQUEST)
            answered_ns = None
        if returned_ns is not None:
            origin = proxy if answered_ns is None else target
            yield self._message(returned_ns, origin, process, _answer(changed), Kind.REQUEST)

    def _offset_commits(self, attempt: Attempt) -> Iterator[Row]:
        """Yield the offsets of the finding's input partitions that the attempt committed."""
        for row in self._story.offset_commits(offset_partitions_of(self._story, self._example)):
            by_producer = attempt.producer is not None and row["producer_id"] == attempt.producer[0]
            named = attempt.op is not None and row["op"] is not None
            meanwhile = by_producer and attempt.lasts_at(self._t.at_ns(row["timestamp_ms"]))
            if row["op"] == attempt.op if named else meanwhile:
                yield row

    def _offsets(self, row: Row, sender: str | None, *, bad: bool) -> Message:
        """Return the message of an offset commit. It is a note at the group if the request of it is drawn, too."""
        group = self._who(f"group {row['group']}", Rank.GROUP)
        how = "" if row["transactional"] else ", outside any transaction"
        text = f"offset {row['committed']} of {self._t.name(row['tp'])}{how}"
        at_ns = self._t.at_ns(row["timestamp_ms"])
        request = None if at_ns is None else self._request_of_offsets(at_ns)
        if request is not None or sender is None:
            bad = bad or (request is not None and request.request.number == self._cause.late)
            return self._message(at_ns, group, group, f"stores {text}", Kind.OFFSETS, bad=bad)
        return self._message(at_ns, sender, group, text, Kind.OFFSETS, bad=bad)

    def _request_of_offsets(self, at_ns: int) -> JournaledRequest | None:
        """Return the request that stored offsets at a time, if it is drawn: one that the proxy had kept, or a retry."""
        changed = self._changed([attempt.transactional_id for attempt in self._attempts])
        retries = [each for each in self._protocol.passed if each.request.number in self._shown_retries]
        for each in [*(each for each in changed if each.reason), *retries]:
            first_ns, last_ns = each.request.delivered_ns or 0, each.answered_ns or at_ns
            if each.request.api in OFFSET_COMMITS and first_ns - TICK_NS <= at_ns <= last_ns + TICK_NS:
                return each
        return None

    def _passing_commits(self) -> Iterator[Message]:
        """Yield the offset commits by which groups went past the inputs, if no attempt made them."""
        own = {
            (row["log_tp"], row["log_offset"])
            for attempt in self._attempts
            for row in self._offset_commits(attempt)
        }
        passing = [part for part in self._example.parts() if isinstance(part, PassingCommit)]
        positions = set(positions_of(self._story, passing)) - own
        for row in self._story.offset_commits(offset_partitions_of(self._story, self._example)):
            if (row["log_tp"], row["log_offset"]) in positions:
                in_transactions = any(attempt.transactional for attempt in self._attempts)
                yield self._offsets(row, None, bad=in_transactions and not row["transactional"])

    def _ended(self, attempt: Attempt, process: str) -> Iterator[Message]:
        """Yield the request to end the transaction, what the coordinator decided, and its response."""
        assert attempt.transactional_id is not None
        coordinator = self._coordinator(attempt.transactional_id)
        by_journals = not self._story.by_logs
        requests = list(self._end_requests(attempt, process, coordinator))
        yield from requests
        at_the_proxy = any(
            each.request.api == "EndTxn" and attempt.lasts_at(each.request.seen_ns)
            for each in self._changed([attempt.transactional_id])
            if attempt.decided_ns is not None and each.request.seen_ns >= attempt.decided_ns
        )
        if by_journals and attempt.decided_ns is not None and not requests and not at_the_proxy:
            text = attempt.asked or "commit"
            yield self._message(attempt.decided_ns, process, coordinator, f"EndTxn({text})", Kind.COMMIT)
        states = [row for row in self._story.states if row["transactional_id"] == attempt.transactional_id]
        decided_ns = [row["at_ns"] for row in states if str(row["state"]).startswith("Prepare")]
        decisive = self._decisive(attempt, [at_ns for at_ns in decided_ns if at_ns is not None])
        retried_ns = self._retried_ns(attempt.transactional_id)
        if attempt in self._related:  # its end may come long after its process died
            later_ns = (at_ns for at_ns in decided_ns if at_ns and at_ns >= (attempt.begin_ns or 0) - TICK_NS)
            decisive = set(islice(later_ns, 1))
        for row in states:
            at_ns, state = row["at_ns"], str(row["state"])
            is_decision = state.startswith("Prepare") and (attempt.lasts_at(at_ns) or at_ns in decisive)
            by_retry = not state.startswith("Ongoing") and any(
                first <= at_ns + TICK_NS and at_ns <= (attempt.begin_ns or first)
                for first in retried_ns
                if at_ns
            )
            if is_decision or by_retry:
                whose = f" of {attempt.transactional_id}" if coordinator == COORDINATORS else ""
                text = f"{state}{whose}, producer {row['producer_id']} epoch {row['epoch']}"
                before = (row["producer_id"], (row["epoch"] or 0) - 1)
                if state == "PrepareCommit" and attempt.producer == before:
                    text += " (one more, KIP-890)"  # so the records have another epoch than the decision
                yield self._message(at_ns, coordinator, coordinator, text, Kind.STATE)
        killed = any(
            is_process(worker, attempt.process) and attempt.lasts_at(at_ns)
            for _, _, worker, at_ns in faults_of_processes(self._story, "kill")
        )
        if by_journals and attempt.end_ns is None and not killed:
            yield self._message(None, process, process, "gets no response, and ends", Kind.END, inferred=True)
        elif by_journals and attempt.end_ns is not None and (attempt.error or not at_the_proxy):
            # An error before the request to end the transaction is not the coordinator's.
            sender = process if attempt.error and attempt.decided_ns is None else coordinator
            yield self._message(attempt.end_ns, sender, process, _outcome(attempt), Kind.END)

    def _end_requests(self, attempt: Attempt, process: str, coordinator: str) -> Iterator[Message]:
        """Yield the EndTxn requests of the attempt that no rule changed, and their responses if no journal has them."""
        for each in self._protocol.passed:
            request = each.request
            if (
                request.api != "EndTxn"
                or not each.is_of([attempt.transactional_id or ""])
                or request.number in self._retries
                or not attempt.lasts_at(request.seen_ns)
            ):
                continue
            yield self._message(request.seen_ns, process, coordinator, each.name, Kind.COMMIT)
            if self._story.by_logs and request.returned_ns is not None:
                yield self._message(request.returned_ns, coordinator, process, _answer(each), Kind.END)

    def _retried_ns(self, transactional_id: str) -> list[int]:
        """Return when the retries of changed EndTxn requests of this id were delivered."""
        return [
            each.request.delivered_ns
            for each in self._protocol.passed
            if each.request.number in self._shown_retries
            and each.is_of([transactional_id])
            and each.request.api == "EndTxn"
            and each.request.delivered_ns is not None
        ]

    def _decisive(self, attempt: Attempt, decided_ns: Sequence[int]) -> set[int]:
        """Return the times of the decisions that led to the markers of the records."""
        batches = [self._story.batch(position) for position in attempt.records]
        markers_ns = [self._t.at_ns(batch["marker_ms"]) for batch in batches if batch is not None]
        earlier = [
            [at for at in decided_ns if at <= each + TICK_NS] for each in markers_ns if each is not None
        ]
        return {max(times) for times in earlier if times}

    def _markers(self, attempt: Attempt, commits: Sequence[Row]) -> Iterator[Message]:
        """Yield the markers that decided the records, or that there are none."""
        assert attempt.transactional_id is not None
        coordinator = self._coordinator(attempt.transactional_id)
        for tp, offset in attempt.records:
            batch = self._story.batch((tp, offset))
            if batch is None or not batch["transactional"]:
                continue
            if self._t.topic(tp) == OFFSETS and commits:
                partition = self._who(f"group {commits[0]['group']}", Rank.GROUP)
            else:
                partition = self._who(self._t.name(tp), Rank.OUTPUT)
            unmarked, completed_ns = self._cause.unmarked or (None, None)
            if unmarked == tp:
                text = "the marker is missing"
                yield self._message(completed_ns, partition, partition, text, Kind.OPEN, bad=True)
            if batch["marker"] is None:
                text = f"no marker above @{offset}: open at the end"
                yield self._message(None, partition, partition, text, Kind.OPEN, bad=True)
                continue
            whose = " of a later transaction" if unmarked == tp else ""
            text = f"{batch['marker']} marker @{batch['marker_offset']}{whose}"
            contrary = {Outcome.OK.value: "abort", Outcome.FAIL.value: "commit"}.get(attempt.outcome)
            bad = unmarked == tp or batch["marker"] == contrary
            at_ns = self._t.at_ns(batch["marker_ms"])
            yield self._message(at_ns, coordinator, partition, text, Kind.MARKER, bad=bad)

    # What happened meanwhile

    def _requests(self) -> Iterator[Message]:
        """Yield the requests of the attempts' transactional ids that a rule changed and that reached an attempt."""
        for each in self._changed([attempt.transactional_id for attempt in self._attempts]):
            request = each.request
            if request.api == "Produce":  # it is shown with the records that it has
                continue
            own_id = next(iter(request.transactional_ids), "")
            sender, proxy = self._sender(own_id, request.seen_ns), self._who(PROXY, Rank.PROXY)
            yield self._message(request.seen_ns, sender, proxy, each.name, Kind.REQUEST)
            yield from self._passed(each, sender, self._target(each, own_id))

    def _sender(self, transactional_id: str, at_ns: int) -> str:
        """Return the process that used a transactional id at a time."""
        operation = self._story.operation_at(transactional_id, at_ns)
        if operation is not None and operation["journal"]:
            return self._who(operation["journal"], Rank.PROCESS)
        used = (a.process for a in self._attempts if a.transactional_id == transactional_id)
        return self._who(next(used, transactional_id), Rank.PROCESS)

    def _retry_messages(self) -> Iterator[Message]:
        """Yield the clients' retries of the requests that are drawn, and their responses."""
        for each in self._protocol.passed:
            request = each.request
            if request.number not in self._shown_retries:
                continue
            own_id = next(iter(request.transactional_ids), "")
            sender, target = self._sender(own_id, request.seen_ns), self._target(each, own_id)
            earlier = self._retries[request.number].request
            other = ", on another connection" if earlier.connection != request.connection else ""
            yield self._message(request.seen_ns, sender, target, f"retry: {each.name}{other}", Kind.REQUEST)
            if request.returned_ns is not None:
                yield self._message(request.returned_ns, target, sender, _answer(each), Kind.REQUEST)

    @cached_property
    def _protocol(self) -> ProtocolJournal:
        """All requests of the attempts' transactional ids."""
        ids = {attempt.transactional_id for attempt in self._attempts} - {None}
        return self._story.requests_of({str(own) for own in ids}) if ids else ProtocolJournal()

    @cached_property
    def _retries(self) -> Mapping[int, JournaledRequest]:
        return self._protocol.retries()

    @cached_property
    def _shown_retries(self) -> set[int]:
        """The numbers of the retries of the requests that are drawn."""
        drawn = {each.request.number for each in self._changed([a.transactional_id for a in self._attempts])}
        return {number for number, earlier in self._retries.items() if earlier.request.number in drawn}

    def _changed(self, ids: Iterable[str | None]) -> list[JournaledRequest]:
        """Return the changed requests of these ids that were sent, delivered or answered during an attempt."""
        return changed_requests(self._story, [own for own in ids if own is not None], self._attempts)

    def _target(self, each: JournaledRequest, own_id: str) -> str:
        if each.request.api in OFFSET_COMMITS and each.request.groups:
            return self._who(f"group {each.request.groups[0]}", Rank.GROUP)
        return self._coordinator(own_id)

    def _assignments(self) -> Iterator[Message]:
        """Yield the moves of the finding's input partitions to and from the processes of the attempts."""
        processes = {attempt.process for attempt in self._attempts}
        tps = {tp for attempt in self._attempts for tp, _ in attempt.inputs}
        if not tps or not self._t.exists("assignments"):
            return
        for row in self._t.rows("assignments", tp=tps):
            meanwhile = self._from_ns - MARGIN_NS <= row["time_ns"] <= self._to_ns + MARGIN_NS
            if not meanwhile or row["journal"] not in processes:
                continue
            process = self._who(row["journal"], Rank.PROCESS)
            group = self._who(f"group {row['group']}", Rank.GROUP)
            verb = "gains" if row["gained"] else "loses"
            text = f"{verb} {self._t.name(row['tp'])}"
            yield self._message(row["time_ns"], group, process, text, Kind.ASSIGNMENT)

    def _removals(self) -> Iterator[Message]:
        """Yield the members that the groups of the input partitions removed: meanwhile, or else the last one before."""
        commits = self._story.offset_commits(offset_partitions_of(self._story, self._example))
        groups = {row["group"] for row in commits}
        until_ns = self._to_ns + MARGIN_NS
        earlier = [each for each in self._story.removals if each.group in groups and each.at_ns <= until_ns]
        meanwhile = [each for each in earlier if each.at_ns >= self._from_ns - MARGIN_NS]
        for each in meanwhile or earlier[-1:]:
            group = self._who(f"group {each.group}", Rank.GROUP)
            text = f"removes {each.member}: {each.why}"
            removed = self._message(each.at_ns, group, group, text, Kind.ASSIGNMENT)
            yield replace(removed, source="brokers/*/server.log")

    def _reads(self) -> Iterator[Message]:
        """Yield for each record of the finding its first reader, or the final reader that did not receive it."""
        records = [each for attempt in self._attempts for each in attempt.records]
        positions = [(tp, offset) for tp, offset in records if self._t.topic(tp) != OFFSETS]
        if not positions:
            return
        tps, offsets = {tp for tp, _ in positions}, {offset for _, offset in positions}
        polls = [
            row
            for row in self._t.rows("polls", tp=tps, offset=offsets)
            if (row["tp"], row["offset"]) in positions
        ]
        readers = {row["op"]: row["journal"] for row in self._t.rows("ops", op={row["op"] for row in polls})}
        first: dict[Position, Row] = {}
        for poll in sorted(polls, key=lambda poll: poll["return_ns"]):
            first.setdefault((poll["tp"], poll["offset"]), poll)
        read: dict[tuple[int, str, int], list[int]] = {}
        for (tp, offset), row in first.items():
            read.setdefault((tp, readers.get(row["op"], "reader"), row["return_ns"]), []).append(offset)
        for (tp, name, at_ns), received in read.items():
            partition, receiver = self._who(self._t.name(tp), Rank.OUTPUT), self._who(name, Rank.READER)
            bad = any(self._is_dirty(first[tp, offset]) for offset in received)
            yield self._message(at_ns, partition, receiver, _records(received), Kind.READ, bad=bad)
        unread: dict[int, list[int]] = {}
        for tp, offset in dict.fromkeys(positions):
            if (tp, offset) not in first:
                unread.setdefault(tp, []).append(offset)
        for tp, offsets_of_tp in unread.items():
            yield from self._unread(tp, offsets_of_tp)

    def _is_dirty(self, poll: Row) -> bool:
        """Return whether a consumer that is promised read committed got a record before, or without, a commit."""
        batch = self._story.batch((poll["tp"], poll["offset"]))
        if batch is None or not batch["transactional"] or poll["promised"] != "read_committed":
            return False
        marker_ns = self._t.at_ns(batch["marker_ms"])
        return batch["marker"] != "commit" or marker_ns is None or poll["return_ns"] < marker_ns

    def _unread(self, tp: int, offsets: Sequence[int]) -> Iterator[Message]:
        """Yield the final readers that read past records and did not receive them."""
        partition = self._who(self._t.name(tp), Rank.OUTPUT)
        failed = {each for a in self._attempts if a.outcome == Outcome.FAIL.value for each in a.records}
        bad = any((tp, offset) not in failed for offset in offsets)
        for end in self._t.rows("ends", tp=[tp], role=["final"], isolation=["read_committed"]):
            passed = [offset for offset in offsets if offset < end["next"]]
            if passed:
                receiver = self._who(end["journal"], Rank.READER)
                text = f"reads on to @{end['next']}, without @{spans(passed)}"
                polls = self._t.rows("ops", journal=[end["journal"]])
                at_ns = max((row["return_ns"] for row in polls if row["return_ns"] is not None), default=None)
                yield self._message(at_ns, partition, receiver, text, Kind.UNREAD, bad=bad)

    def _faults(self) -> Iterator[Message]:
        """Yield the faults during the attempts."""
        for number, fault in enumerate(self._story.faults, 1):
            start_ns = round(fault.start_s * 1e9)
            end_ns = None if fault.end_s is None else round(fault.end_s * 1e9)
            if not fault.acted or _is_rule(fault, self._story):
                continue
            worker = struck_process(fault)
            ended_it = any(is_process(worker, a.process) and a.lasts_at(start_ns) for a in self._attempts)
            before = end_ns is not None and end_ns < self._from_ns - MARGIN_NS and number != self._cause.fault
            if (before or start_ns > self._to_ns + TICK_NS) and not ended_it:
                continue
            target = self._target_of(fault)
            if target == EVERYBODY and worker:
                continue  # a process that has no part in the finding
            struck, over = fault.struck, f"{fault.fault} is over"
            if target != EVERYBODY:  # its lifeline names it
                struck = struck.removeprefix(f"worker {worker} ").removeprefix(f"instance {worker} ")
                struck = struck.partition(" until ")[0]
                kind = fault.fault.partition("-")[0]
                successor = successor_of(self._story, worker) if kind == "kill" else ""
                over = f"{successor} takes its place" if successor else HEALED.get(kind, over)
            yield self._message(start_ns, target, target, struck, Kind.FAULT)
            if end_ns is not None and end_ns <= self._to_ns + MARGIN_NS:
                yield self._message(end_ns, target, target, over, Kind.HEAL)

    def _target_of(self, fault: FaultReport) -> str:
        worker = struck_process(fault)
        return next((name for name in self._ranks if name and is_process(worker, name)), EVERYBODY)


def _records(offsets: Sequence[int]) -> str:
    return f"record{'s' * (len(offsets) > 1)} @{spans(offsets)}"


def _is_rule(fault: FaultReport, story: Story) -> bool:
    """Return whether the fault is a rule. Its requests are shown instead."""
    return any(each.rule == fault.fault for each in story.protocol.changed.values())


def _outcome(attempt: Attempt) -> str:
    words = {
        Outcome.OK.value: SUCCESS,
        Outcome.FAIL.value: "failure",
        Outcome.INFO.value: "outcome unknown",
    }
    error = f": {error_code(attempt.error)}" if attempt.error else ""
    return f"{words.get(attempt.outcome, attempt.outcome)}{error}"


def _answer(request: JournaledRequest) -> str:
    return request.answer.replace("NONE", SUCCESS) or SUCCESS


def _in_order(messages: Iterable[Message]) -> list[Message]:
    """Sort by time. A message without a time comes last.

    Coordinators write times in whole milliseconds, rounded down, so what they did comes last in its millisecond.
    """

    def key(message: Message) -> tuple[bool, int]:
        rounded = message.kind in (Kind.STATE, Kind.MARKER, Kind.OFFSETS)
        return message.at_ns is None, (message.at_ns or 0) + 999_999 * rounded

    return sorted(messages, key=key)


_BEGINS = (Kind.FAULT, Kind.INPUT, Kind.REQUEST, Kind.BEGIN, Kind.RECORD, Kind.OFFSETS)


def _from_its_begin(messages: Sequence[Message]) -> list[Message]:
    """Return the messages from the first fault, input or request on. What came before says nothing about a finding."""
    first = next((n for n, message in enumerate(messages) if message.kind in _BEGINS), 0)
    return list(messages[first:])


_LEAST_INFORMATIVE = (Kind.STATE, Kind.ASSIGNMENT, Kind.READ, Kind.BEGIN, Kind.HEAL)


def _most_informative(messages: Sequence[Message]) -> list[Message]:
    """Return at most `MOST_MESSAGES`: without the kinds that tell least, and then the first ones."""
    kept = list(messages)
    for kind in _LEAST_INFORMATIVE:
        if len(kept) <= MOST_MESSAGES:
            break
        kept = [message for message in kept if message.kind is not kind]
    return kept[:MOST_MESSAGES]
