"""Carry the bytes of a connection, split them into Kafka's messages, and read what rules and the journal need.

A message on the wire is its size (4 bytes) and then its content. `FrameSplitter` passes most bytes on as they come, in
the chunks in which they come, and collects only those messages that are to be decoded.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable

from harness.protocol.responses import errors_in
from harness.protocol.rules import Frame
from harness.protocol.schemas import Api, Field, Message, Schemas
from harness.wire.protocol import MAX_RESPONSE_BYTES

SIZE_BYTES = 4
HEAD_BYTES = 12
"""The size, and as much of the header as tells the API and the correlation id of a request."""
MAX_BACKLOG_BYTES = 4 << 20
"""While nothing passes, a direction of a connection keeps about this much. Then its bytes are no longer read."""
SLICE_BYTES = 16 * 1024
"""What was kept is delivered in slices of this size."""
LARGEST_BYTES = MAX_RESPONSE_BYTES
"""A larger message ends its connection, so that the proxy's memory is bounded and no message passes unseen."""
Bytes = bytes | bytearray | memoryview
_INT16 = struct.Struct(">h")


class NotKafka(Exception):
    """The bytes on a connection are not Kafka's protocol."""


class Side(asyncio.Protocol):
    """One end of a connection: that of the client, or that of the broker."""

    def __init__(self, on_data: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self.on_made: Callable[[asyncio.Transport], None] | None = None
        self._on_data = on_data
        self._on_lost = on_lost
        self.transport: asyncio.Transport | None = None
        self.stream: asyncio.StreamWriter | None = (
            None  # kept, because a stream closes its transport at its end
        )
        self.other: Side | None = None
        self._reading_pauses: set[str] = set()  # why nothing is read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 20)
        if self.on_made is not None:
            self.on_made(transport)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading("the other side is slow", paused=True)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading("the other side is slow", paused=False)

    def pause_reading(self, why: str, *, paused: bool) -> None:
        """Pause reading for a reason, or take the reason back. Bytes are read while there is none."""
        (self._reading_pauses.add if paused else self._reading_pauses.discard)(why)
        if self.transport is not None and not self.transport.is_closing():
            (self.transport.pause_reading if self._reading_pauses else self.transport.resume_reading)()

    def write(self, data: Bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()


class FrameSplitter:
    """Splits the bytes of one direction of a connection.

    Args:
        wants: Is called at the start of each message with its first bytes, at least HEAD_BYTES of them or the whole
            message. Returns whether the message is to be collected.
        on_frame: Gets each collected message, with its size.
        pass_on: Gets all other bytes.
        refuse: Is called if the bytes are not Kafka's protocol. Nothing passes after that.
        on_full: Is called with True if no more bytes can be kept, and with False if they can be again.
        later: Calls its argument soon.
    """

    def __init__(
        self,
        wants: Callable[[memoryview], bool],
        on_frame: Callable[[bytes], None],
        pass_on: Callable[[Bytes], None],
        refuse: Callable[[NotKafka], None],
        on_full: Callable[[bool], None] = lambda full: None,
        later: Callable[[Callable[[], None]], object] = lambda go_on: go_on(),
    ) -> None:
        self._wants = wants
        self._on_frame = on_frame
        self._pass_on = pass_on
        self._refuse = refuse
        self._on_full = on_full
        self._later = later
        self._refused = False
        self._full = False
        self._splitting = False
        self._passing = 0  # bytes of the current message that are still to be passed on
        self._collected = bytearray()  # the start of a message
        self._total = (
            0  # the size of the message that is collected; 0: it is not known yet whether to collect it
        )
        self._blocks = 0
        self._backlog = bytearray()

    @property
    def blocked(self) -> bool:
        """Whether nothing passes until `unblock` is called."""
        return self._blocks > 0

    def block(self) -> None:
        """Keep everything that comes from now on, until `unblock` was called as often as this."""
        self._blocks += 1

    def unblock(self) -> None:
        """Take back one `block`. After the last, go on with what was kept."""
        self._blocks -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Deliver a slice of what was kept. The next one comes later, so that other connections do not wait."""
        if self._splitting or self._blocks or self._refused or not self._backlog:
            return
        del self._backlog[: self._take(bytes(self._backlog[:SLICE_BYTES]))]
        self._tell_full()
        if self._backlog:
            self._later(self._go_on)

    def end(self) -> None:
        """Forget what was kept, and let nothing pass any more."""
        self._refused = True
        self._backlog.clear()

    def feed(self, data: Bytes) -> None:
        """Take bytes from the connection."""
        if self._refused:
            return
        taken = 0 if self._blocks or self._backlog else self._take(data)
        self._backlog += memoryview(data)[taken:]
        self._tell_full()

    def _tell_full(self) -> None:
        full = len(self._backlog) >= MAX_BACKLOG_BYTES
        if full is not self._full:
            self._full = full
            self._on_full(full)

    def _take(self, data: Bytes) -> int:
        """Let bytes pass until a message blocks them. Return how many have passed."""
        self._splitting = True
        try:
            return self._split(memoryview(data))
        except NotKafka as error:
            self._refused = True
            self._refuse(error)
            return len(data)
        finally:
            self._splitting = False

    def _split(self, view: memoryview) -> int:
        at = start = 0  # `start`: from here on the bytes are to be passed on
        while at < len(view):
            if self._passing:
                step = min(self._passing, len(view) - at)
                at += step
                self._passing -= step
            elif self._collected or len(view) - at < HEAD_BYTES:
                if start < at:
                    self._pass_on(view[start:at])
                at = start = self._collect(view, at)
            else:
                try:
                    total = _total_bytes(view[at : at + SIZE_BYTES])
                except NotKafka:
                    self._pass_on(view[start:at])
                    raise
                if not self._wants(view[at : at + total]):
                    self._passing = total
                    continue
                if start < at:
                    self._pass_on(view[start:at])
                if len(view) - at < total:
                    self._collected += view[at:]
                    self._total = total
                    return len(view)
                at = start = at + total
                self._on_frame(bytes(view[at - total : at]))
            if self._blocks:
                view = view[:at]
        if start < len(view):
            self._pass_on(view[start:])
        return len(view)

    def _collect(self, view: memoryview, at: int) -> int:
        """Add bytes to the start of a message. Return the position behind them."""
        wanted = self._total or (HEAD_BYTES if len(self._collected) >= SIZE_BYTES else SIZE_BYTES)
        if not self._total and len(self._collected) >= SIZE_BYTES:
            wanted = min(wanted, _total_bytes(self._collected))
        step = min(wanted - len(self._collected), len(view) - at)
        self._collected += view[at : at + step]
        at += step
        if len(self._collected) < wanted:
            return at
        if wanted == SIZE_BYTES:
            _total_bytes(self._collected)  # refuses a message that cannot be one
            return at
        total = self._total or _total_bytes(self._collected)
        if not self._total:
            if not self._wants(memoryview(bytes(self._collected))):
                self._passing = total - len(self._collected)
                head, self._collected = bytes(self._collected), bytearray()
                self._pass_on(head)
                return at
            self._total = total
        if len(self._collected) == total:
            frame, self._collected, self._total = bytes(self._collected), bytearray(), 0
            self._on_frame(frame)
        return at


def _total_bytes(head: Bytes) -> int:
    size = int.from_bytes(head[:SIZE_BYTES], signed=True)
    if not 4 <= size <= LARGEST_BYTES:
        raise NotKafka(f"a message of {size} bytes is not Kafka's protocol")
    return SIZE_BYTES + size


def with_size(content: bytes) -> bytes:
    """Return a message as it is sent: its size, then its content."""
    return len(content).to_bytes(SIZE_BYTES) + content


def decode_request(schemas: Schemas, frame: bytes, link: str = "") -> Frame:
    """Decode a request with its header. Raises `UnknownMessage` and `UndecodableMessage`."""
    api = schemas.api(int.from_bytes(frame[4:6], signed=True))
    version = int.from_bytes(frame[6:8], signed=True)
    view = memoryview(frame)
    header, at = schemas.request_header.decode(view, api.request_header_version(version), SIZE_BYTES)
    body, _ = api.request.decode(view, version, at)
    ids, groups = names_in(api, body)
    return Frame(
        api.name, "request", version, header["CorrelationId"], header["ClientId"], body, link, ids, groups
    )


def encode_request(schemas: Schemas, frame: Frame, original: bytes) -> bytes:
    """Encode a changed request with the header of the original."""
    api = schemas.api(frame.api)
    header_version = api.request_header_version(frame.version)
    _, at = schemas.request_header.decode(memoryview(original), header_version, SIZE_BYTES)
    return with_size(original[SIZE_BYTES:at] + api.request.encode(frame.body, frame.version))


def decode_response(schemas: Schemas, frame: bytes, request: Frame) -> Frame:
    """Decode the response to a request. Raises `UnknownMessage` and `UndecodableMessage`."""
    api = schemas.api(request.api)
    view = memoryview(frame)
    version = response_version(api, frame, request.version)
    header, at = schemas.response_header.decode(view, api.response_header_version(version), SIZE_BYTES)
    body, _ = api.response.decode(view, version, at)
    return Frame(
        api=api.name,
        message="response",
        version=version,
        correlation=header["CorrelationId"],
        client_id=request.client_id,
        body=body,
        link=request.link,
        transactional_ids=request.transactional_ids,
        groups=request.groups,
        errors=errors_in(api, body, version),
    )


def response_version(api: Api, frame: bytes, requested: int) -> int:
    """Return the version of a response. A broker that lacks the version of an ApiVersions request answers in 0."""
    unsupported = api.name == "ApiVersions" and int.from_bytes(frame[8:10], signed=True) == 35
    return 0 if unsupported else requested


def encode_response(schemas: Schemas, api: Api, version: int, correlation: int, body: Message) -> bytes:
    """Encode a response with its header."""
    header = schemas.response_header.encode(
        {"CorrelationId": correlation}, api.response_header_version(version)
    )
    return with_size(header + api.response.encode(body, version))


def with_correlation(frame: bytes, correlation: int) -> bytes:
    """Return a request with another correlation id."""
    return frame[:8] + correlation.to_bytes(4, signed=True) + frame[12:]


def names_in(api: Api, body: Message) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the transactional ids and the groups that a request names."""
    ids: list[str] = []
    groups: list[str] = []
    _collect_names(api.request.fields, body, ids, groups)
    if api.name == "FindCoordinator":
        keys = body.get("CoordinatorKeys") or [body.get("Key")]
        (ids if body.get("KeyType") == 1 else groups).extend(keys)
    return _distinct(ids), _distinct(groups)


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    """Return each name once. A damaged message may have null where a name should be."""
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _collect_names(fields: tuple[Field, ...], body: Message, ids: list[str], groups: list[str]) -> None:
    for field in fields:
        value = body.get(field.name)
        if not value:
            continue
        if field.entity in ("transactionalId", "groupId"):
            (ids if field.entity == "transactionalId" else groups).extend(
                value if field.is_array else [value]
            )
        elif field.is_struct:
            for each in value if field.is_array else (value,):
                _collect_names(field.fields, each, ids, groups)


def produce_names(head: memoryview, version: int) -> tuple[tuple[str, ...], bool]:
    """Return the transactional id of a Produce request, and whether it gets no response (acks = 0)."""
    flexible = version >= 9
    at = 12
    try:
        (size,) = _INT16.unpack_from(head, at)
        at += 2 + max(0, size)
        if flexible:
            at += 1  # no tagged fields in the header
            length, at = head[at] - 1, at + 1
            if length >= 127:
                length, at = (head[at - 1] & 0x7F | head[at] << 7) - 1, at + 1
        else:
            (length,), at = _INT16.unpack_from(head, at), at + 2
        (acks,) = _INT16.unpack_from(head, at + max(0, length))
        name = str(head[at : at + length], "utf-8") if length >= 0 else None
    except (IndexError, struct.error, UnicodeDecodeError):
        return (), False  # only the start of the request has come
    return (() if name is None else (name,)), acks == 0
