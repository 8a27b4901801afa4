"""One connection of a client through the proxy to a broker."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from harness.model.kafka_protocol import error_codes
from harness.protocol.active import ActiveRule, Kept, Outstanding, WaitingMessage
from harness.protocol.frames import (
    Bytes,
    FrameSplitter,
    NotKafka,
    Side,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    produce_names,
    with_correlation,
)
from harness.protocol.responses import ADDRESS_APIS, AddressMap, error_response, errors_in, set_errors
from harness.protocol.rules import Action, ClientConnection, Frame, When, describe_changes, with_values
from harness.protocol.schemas import Message, UndecodableMessage, UnknownMessage
from harness.protocol.state import ProxyState
from harness.record.protocol_journal import RequestRecord, now_ns

ANSWER_TIMEOUT_S = 5.0
"""How long a message that triggered a release waits until the released request was answered."""
FIRST_OWN_CORRELATION = 1 << 30
"""Copies of requests get correlation ids from here on. Clients count from 0."""
PRODUCE = 0


@dataclass(eq=False)
class Connection:
    """Carries the bytes of one client, and applies the rules to them."""

    proxy: ProxyState
    link: str
    number: int
    addresses: AddressMap | None = None  # the addresses that the client gets; None: the brokers' own
    client_id: str | None = None
    # By correlation id, in the client's order.
    outstanding: dict[int, Outstanding] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    client_gone: bool = False
    _own_correlation: int = FIRST_OWN_CORRELATION

    def __post_init__(self) -> None:
        self.client = Side(self._from_client, self._client_lost)
        self.broker = Side(self._from_broker, self._broker_lost)
        self.client.other, self.broker.other = self.broker, self.client
        self._requests = FrameSplitter(
            self._wants_request,
            self._on_request,
            self._to_broker,
            self._close_refused,
            lambda full: self.client.pause_reading("its requests wait", paused=full),
            partial(self.proxy.later, 0.0),
        )
        self._responses = FrameSplitter(
            self._wants_response,
            self._on_response,
            self._to_client,
            self._close_refused,
            lambda full: self.broker.pause_reading("its responses wait", paused=full),
            partial(self.proxy.later, 0.0),
        )

    # Bytes

    def _from_client(self, data: bytes) -> None:
        self._requests.feed(data)

    def _from_broker(self, data: bytes) -> None:
        self._responses.feed(data)

    def _close_refused(self, error: NotKafka) -> None:
        self.proxy.report(f"a connection on {self.link} was closed: {error}")
        self.close()

    def _to_broker(self, data: Bytes) -> None:
        self.broker.write(data)

    def _to_client(self, data: Bytes) -> None:
        self.client.write(data)

    # Requests

    def _wants_request(self, head: memoryview) -> bool:
        key, version = int.from_bytes(head[4:6], signed=True), int.from_bytes(head[6:8], signed=True)
        correlation = int.from_bytes(head[8:12], signed=True)
        if key in self.proxy.decoded_requests:
            return True
        names, unanswered = produce_names(head, version) if key == PRODUCE else ((), False)
        record = self._record(key, version, correlation, int.from_bytes(head[:4]) + 4, names)
        record.delivered_ns = record.seen_ns
        self.proxy.note_request(record, {})
        if unanswered:
            self.proxy.journal.write_request(record)
        else:
            self._expect(Outstanding(record, None, key))
        return False

    def _expect(self, outstanding: Outstanding) -> None:
        """Wait for the response to a request. If a client uses a correlation id twice, the first gets none."""
        correlation = outstanding.record.correlation
        earlier = self.outstanding.get(correlation)
        if earlier is not None and earlier is not outstanding:
            self.proxy.journal.write_request(earlier.record)
            del self.outstanding[correlation]  # its place is that of the first
        self.outstanding[correlation] = outstanding

    def _record(
        self,
        key: int,
        version: int,
        correlation: int,
        size: int,
        ids: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
    ) -> RequestRecord:
        return RequestRecord(
            number=self.proxy.next_number(),
            connection=self.number,
            link=self.link,
            api=self.proxy.api_name(key),
            version=version,
            correlation=correlation,
            client_id=self.client_id,
            bytes=size,
            seen_ns=now_ns(),
            transactional_ids=ids,
            groups=groups,
        )

    def _on_request(self, raw: bytes) -> None:
        key, version = int.from_bytes(raw[4:6], signed=True), int.from_bytes(raw[6:8], signed=True)
        correlation = int.from_bytes(raw[8:12], signed=True)
        try:
            frame = decode_request(self.proxy.schemas, raw, self.link)
        except (UnknownMessage, UndecodableMessage) as error:
            self.proxy.passed_undecoded(key, "request", self.link, error)
            record = self._record(key, version, correlation, len(raw))
            self.proxy.note_request(record, {})
            self._forward(raw, Outstanding(record, None, key))
            return
        self.client_id = frame.client_id
        record = self._record(key, version, correlation, len(raw), frame.transactional_ids, frame.groups)
        if frame.api == "EndTxn":
            record.asked = "commit" if frame.body.get("Committed") else "abort"
        self.proxy.note_request(record, frame.body)
        self.proxy.complete(frame)
        outstanding = Outstanding(record, frame, key)
        if self._observe(frame, self._requests, lambda: self._apply(raw, outstanding)):
            return
        self._apply(raw, outstanding)

    def _apply(self, raw: bytes, outstanding: Outstanding) -> None:
        """Let the first rule that acts on a request decide, or forward it."""
        frame = outstanding.frame
        assert frame is not None
        active = self.proxy.first_rule(frame)
        if active is None:
            self._forward(raw, outstanding)
            self.proxy.passed(frame)
            return
        act = {
            Action.HOLD: self._hold,
            Action.SWAP: self._swap,
            Action.DELAY: self._hold,
            Action.DROP: self._drop,
            Action.DUPLICATE: self._duplicate,
            Action.ERROR: self._answer_instead if active.rule.when is When.INSTEAD else self._answer_after,
            Action.CLOSE: self._close_instead if active.rule.when is When.INSTEAD else self._close_after,
            Action.EDIT: self._edit,
        }[active.rule.action]
        outstanding.record.rule = active.rule.name
        act(active, raw, outstanding)

    def _hold(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        resets = active.rule.action is Action.HOLD and active.rule.client is ClientConnection.RESET
        self._keep(active, raw, outstanding, swallow=resets)
        active.note(active.keeps_words, outstanding.record)
        if resets:
            self.client_reset()

    def _swap(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        self._expect(outstanding)  # its response comes in this order
        self._keep(active, raw, outstanding, swallow=False, block=False)
        active.note("held until the next of its kind has passed", outstanding.record)

    def _drop(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        active.note("dropped", outstanding.record)
        active.prove(outstanding.record)
        if active.rule.client is ClientConnection.RESET:
            outstanding.record.client_gone_ns = now_ns()
            self.client_reset()
        self.proxy.journal.write_request(outstanding.record)

    def _answer_after(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        outstanding.change = lambda response: self._with_error(active, outstanding, response)
        self._note_at_return(active, outstanding, "answered")  # the client may go before the broker answers
        self._forward(raw, outstanding)

    def _close_instead(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        active.note("its connection was closed before it was delivered", outstanding.record)
        if self.client.is_open:
            active.prove(outstanding.record)
        self.proxy.journal.write_request(outstanding.record)
        self.client_reset()

    def _close_after(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        record = outstanding.record
        outstanding.swallow = True
        self._forward(raw, outstanding)
        active.note("its connection was closed after it was delivered", record)
        was_open = self.client.is_open

        def answered() -> None:
            words = f"{record}, whose connection was closed, was answered {record.errors_text}"
            active.note("answered", record, words)
            if was_open:
                active.prove(record)

        outstanding.after = answered
        self.client_reset()

    def _edit(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        frame, record, before = outstanding.frame, outstanding.record, raw
        assert frame is not None
        try:
            body = with_values(frame.body, active.rule.set_fields)
            raw = encode_request(self.proxy.schemas, replace(frame, body=body), raw)
        except ValueError as error:
            self.proxy.report(f"a request on {self.link} passed unchanged: {error}")
        changes = self._changes(active, frame, body) if raw != before else ""
        if changes:
            frame.body = body
        self._forward(raw, outstanding)
        if changes:
            active.note("changed", record, f"{record}: it was changed: {changes}")
            if record.delivered_ns is not None:
                active.prove(record)

    def _changes(self, active: ActiveRule, frame: Frame, after: Message) -> str:
        """Describe how the body of a message differs from the changed one."""
        api = self.proxy.schemas.api(frame.api)
        schema = api.request if frame.message == "request" else api.response
        return describe_changes(frame.body, after, active.rule.set_fields, schema.paths)

    def _note_at_return(
        self, active: ActiveRule, outstanding: Outstanding, event: str, words: str = ""
    ) -> None:
        """Note what the rule did with a response when the client gets it. That it got it is the proof.

        Without `words` the rule has done nothing yet, and it is noted only that the client never got the response.
        """

        def note() -> None:
            if outstanding.record.returned_ns is None:
                active.note(f"not {event}, because its client had gone", outstanding.record)
            elif words:
                active.note(event, outstanding.record, words)
                active.prove(outstanding.record)

        outstanding.on_end = note

    def _forward(self, raw: bytes, outstanding: Outstanding) -> None:
        record = outstanding.record
        record.delivered_ns = now_ns() if self.broker.is_open else None
        if outstanding.frame is not None and not outstanding.frame.gets_response:
            self.proxy.journal.write_request(record)
        else:
            self._expect(outstanding)
        self.broker.write(raw)

    def _keep(
        self, active: ActiveRule, raw: bytes, outstanding: Outstanding, *, swallow: bool, block: bool = True
    ) -> None:
        assert outstanding.frame is not None
        blocks = block and not swallow
        deliver = partial(self._deliver_kept, raw, outstanding, blocks)
        kept = Kept(active, outstanding.record, outstanding.frame, deliver)
        outstanding.kept, outstanding.swallow = kept, swallow
        self.kept.append(kept)
        active.kept.append(kept)
        if blocks:
            self._requests.block()
        self.proxy.set_timer(kept)

    def _duplicate(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        self._forward(raw, outstanding)
        correlation, self._own_correlation = self._own_correlation, self._own_correlation + 1
        original = outstanding.record
        record = self._record(
            outstanding.key,
            original.version,
            correlation,
            len(raw),
            original.transactional_ids,
            original.groups,
        )
        record.copy_of, record.rule, record.asked = original.number, active.rule.name, original.asked
        copy = Outstanding(record, outstanding.frame, outstanding.key)
        self._keep(active, with_correlation(raw, correlation), copy, swallow=True)
        active.note("copied", original)

    def _answer_instead(self, active: ActiveRule, raw: bytes, outstanding: Outstanding) -> None:
        frame, record = outstanding.frame, outstanding.record
        assert frame is not None
        api = self.proxy.schemas.api(frame.api)
        code = error_codes()[active.rule.error]
        body = error_response(api, frame.body, frame.version, code)
        outstanding.ready = encode_response(self.proxy.schemas, api, frame.version, record.correlation, body)
        record.errors = (active.rule.error,)
        words = f"{record} was answered {active.rule.error}, and never delivered"
        self._note_at_return(active, outstanding, "answered", words)
        self._expect(outstanding)
        self._send_ready()

    # Responses

    def _wants_response(self, head: memoryview) -> bool:
        outstanding = self.outstanding.get(int.from_bytes(head[4:8], signed=True))
        if outstanding is None:
            return False
        self._drop_unanswered(outstanding)
        if (
            outstanding.frame is not None
            or outstanding.swallow
            or outstanding.key in self.proxy.decoded_responses
        ):
            return True
        if self.addresses is not None and outstanding.key in ADDRESS_APIS:
            return True
        if self._first_unanswered() is not outstanding:
            return True  # an earlier request has no response yet
        record = outstanding.record
        record.answered_ns = record.returned_ns = now_ns()
        self._finish(outstanding)
        return False

    def _drop_unanswered(self, outstanding: Outstanding) -> None:
        """Drop earlier requests that get no response. A broker answers in the order in which requests arrive."""
        delivered_ns = outstanding.record.delivered_ns or 0
        for each in list(self.outstanding.values()):
            if each is outstanding:
                return
            if each.ready is None and (each.record.delivered_ns or delivered_ns + 1) < delivered_ns:
                self._finish(each)

    def _on_response(self, raw: bytes) -> None:
        outstanding = self.outstanding.get(int.from_bytes(raw[4:8], signed=True))
        if outstanding is None:  # a second request with its correlation id was answered in the meantime
            self._to_client(raw)
            return
        record = outstanding.record
        record.answered_ns = record.answered_ns or now_ns()
        request = outstanding.frame or Frame(
            api=record.api,
            message="request",
            version=record.version,
            correlation=record.correlation,
            client_id=record.client_id,
            body={},
            link=self.link,
            transactional_ids=record.transactional_ids,
            groups=record.groups,
        )
        try:
            frame = decode_response(self.proxy.schemas, raw, request)
        except (UnknownMessage, UndecodableMessage) as error:
            if self.addresses is not None and outstanding.key in ADDRESS_APIS:
                self.proxy.report(
                    f"a connection on {self.link} was closed, because it may name a broker: {error}"
                )
                self.close()
                return
            self.proxy.passed_undecoded(outstanding.key, "response", self.link, error)
            self._return(outstanding, raw)
            return
        record.errors = frame.errors
        self.proxy.complete(frame)
        if self._observe(frame, self._responses, lambda: self._apply_to_response(raw, frame, outstanding)):
            return
        self._apply_to_response(raw, frame, outstanding)

    def _apply_to_response(self, raw: bytes, frame: Frame, outstanding: Outstanding) -> None:
        if self.addresses is not None and self.addresses.rewrite(frame, self.proxy.schemas):
            raw = self._encode(frame, outstanding)
        if outstanding.change is not None:
            raw = self._encode(outstanding.change(frame), outstanding)
        active = None if outstanding.swallow else self.proxy.first_rule(frame)
        if active is None:
            self._return(outstanding, raw)
            self.proxy.passed(frame)
            return
        act = {
            Action.HOLD: self._hold_response,
            Action.DELAY: self._hold_response,
            Action.DROP: self._drop_response,
            Action.ERROR: self._change_error,
            Action.CLOSE: self._close_for_response,
            Action.EDIT: self._edit_response,
        }[active.rule.action]
        act(active, raw, frame, outstanding)

    def _hold_response(self, active: ActiveRule, raw: bytes, frame: Frame, outstanding: Outstanding) -> None:
        kept = Kept(active, outstanding.record, frame, partial(self._return_kept, raw, outstanding))
        self.kept.append(kept)
        active.kept.append(kept)
        active.note(f"its response was {active.keeps_words}", outstanding.record)
        self._responses.block()
        self.proxy.set_timer(kept)

    def _drop_response(self, active: ActiveRule, raw: bytes, frame: Frame, outstanding: Outstanding) -> None:
        record, outstanding.swallow = outstanding.record, True
        words = f"{record} was answered {record.errors_text}, and its client never knew"
        active.note("its response was dropped", record, words)
        active.prove(record)
        self._return(outstanding, raw)
        if active.rule.client is ClientConnection.RESET:
            self.client_reset()

    def _change_error(self, active: ActiveRule, raw: bytes, frame: Frame, outstanding: Outstanding) -> None:
        self._return(outstanding, self._encode(self._with_error(active, outstanding, frame), outstanding))

    def _close_for_response(
        self, active: ActiveRule, raw: bytes, frame: Frame, outstanding: Outstanding
    ) -> None:
        outstanding.swallow = True
        active.note("its connection was closed instead of its response", outstanding.record)
        if self.client.is_open:
            active.prove(outstanding.record)
        self._return(outstanding, raw)
        self.client_reset()

    def _edit_response(self, active: ActiveRule, raw: bytes, frame: Frame, outstanding: Outstanding) -> None:
        changed = raw
        try:
            body = with_values(frame.body, active.rule.set_fields)
            changed = self._encode(replace(frame, body=body), outstanding)
        except ValueError as error:
            self.proxy.report(f"a response on {self.link} passed unchanged: {error}")
        if changed != raw:
            words = f"{outstanding.record}: its response was changed: {self._changes(active, frame, body)}"
            self._note_at_return(active, outstanding, "changed", words)
        self._return(outstanding, changed)

    def _with_error(self, active: ActiveRule, outstanding: Outstanding, response: Frame) -> Frame:
        record, rule = outstanding.record, active.rule
        was = record.errors_text
        api = self.proxy.schemas.api(response.api)
        response.body = set_errors(api, response.body, response.version, error_codes()[rule.error])
        record.broker_errors, record.errors = record.errors, errors_in(api, response.body, response.version)
        if record.errors == record.broker_errors:
            active.acted -= 1  # it acts on the next response instead
            outstanding.on_end = None
            active.note(
                "answered", record, f"{record} was answered {was} by the broker, so nothing was changed"
            )
        else:
            words = f"{record} was answered {was}, and its client got {rule.error}"
            self._note_at_return(active, outstanding, "answered", words)
        return response

    def _encode(self, frame: Frame, outstanding: Outstanding) -> bytes:
        api = self.proxy.schemas.api(frame.api)
        return encode_response(
            self.proxy.schemas, api, frame.version, outstanding.record.correlation, frame.body
        )

    def _return(self, outstanding: Outstanding, raw: bytes) -> None:
        """Send a response to the client, after those of its earlier requests."""
        if outstanding.swallow:
            self._finish(outstanding)
        else:
            outstanding.ready = raw
        self._send_ready()

    def _send_ready(self) -> None:
        while (first := self._first_unanswered()) is not None and first.ready is not None:
            self.client.write(first.ready)
            first.record.returned_ns = now_ns() if self.client.is_open else None
            self._finish(first)

    def _first_unanswered(self) -> Outstanding | None:
        return next((each for each in self.outstanding.values() if not each.swallow), None)

    def _finish(self, outstanding: Outstanding) -> None:
        """Write a request to the journal whose response has come."""
        self.outstanding.pop(outstanding.record.correlation, None)
        outstanding.end()
        self.proxy.journal.write_request(outstanding.record)
        if outstanding.after is not None:
            after, outstanding.after = outstanding.after, None
            after()
            self._close_if_unused()
        if (kept := outstanding.kept) is not None and kept.released:
            words = f"{kept.request} was answered {kept.request.errors_text}"
            kept.rule.note("answered", kept.request, words)
            kept.took_effect = True
            kept.finish()
            self._forget(kept)

    # Releases

    def _observe(self, frame: Frame, splitter: FrameSplitter, pass_message: Callable[[], None]) -> bool:
        """Release what is due because of this message. Return whether the message must wait for the answers."""
        waits_for = self.proxy.release_due(frame)
        if not waits_for:
            return False
        splitter.block()
        trigger = WaitingMessage(splitter, pass_message, waits_for)
        for kept in waits_for:
            kept.waiting.append(trigger)
        self.proxy.later(ANSWER_TIMEOUT_S, trigger.give_up)
        return True

    def _deliver_kept(self, raw: bytes, outstanding: Outstanding, blocks: bool, kept: Kept) -> None:
        """Send a request that was kept. If it `blocks`, nothing else on its connection has passed since."""
        outstanding.swallow |= self.client_gone
        if self.broker.is_open:
            kept.took_effect = kept.rule.rule.action is Action.DELAY
            self._forward(raw, outstanding)
        if self.outstanding.get(outstanding.record.correlation) is not outstanding:
            kept.finish()  # no response will come
            self._forget(kept)
        if blocks:
            self._requests.unblock()

    def _return_kept(self, raw: bytes, outstanding: Outstanding, kept: Kept) -> None:
        """Return a response that was kept."""
        self._return(outstanding, raw)
        kept.took_effect = outstanding.record.returned_ns is not None
        kept.finish()
        self._responses.unblock()
        self._forget(kept)

    def _forget(self, kept: Kept) -> None:
        if kept in self.kept:
            self.kept.remove(kept)
        self._close_if_unused()

    # Ends

    def client_reset(self) -> None:
        """Close the client's connection at once. What the broker still owes is waited for."""
        if self.client.transport is not None:
            self.client.transport.abort()
        self._client_lost()

    def _client_lost(self) -> None:
        if self.client_gone:
            return
        self.client_gone = True
        for each in self.outstanding.values():
            each.swallow = True
        for record in (
            *(each.record for each in self.outstanding.values()),
            *(each.request for each in self.kept),
        ):
            if record.copy_of is None:
                record.client_gone_ns = now_ns()
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Close the broker's connection once nothing more is to be sent on it or read from it."""
        if not self.client_gone:
            return
        owed = any(each.after is not None or each.kept is not None for each in self.outstanding.values())
        if not self.kept and not owed:
            self.close()

    def _broker_lost(self) -> None:
        for kept in list(self.kept):
            if not kept.done:
                kept.rule.note(
                    "lost",
                    kept.request,
                    f"{kept.request}: the broker closed the connection before it answered",
                )
                kept.finish()
        self.kept.clear()
        self.close()

    def close(self) -> None:
        """Close both sides, and write what is known of the requests that are outstanding."""
        for each in list(self.outstanding.values()):
            each.end()
            self.proxy.journal.write_request(each.record)
        self.outstanding.clear()
        self.client_gone = True
        for splitter in (self._requests, self._responses):
            splitter.end()
        for side in (self.client, self.broker):
            if side.transport is not None and not side.transport.is_closing():
                side.transport.close()
