"""A link through the protocol proxy without sockets: a client and a broker that a test plays itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.model.kafka_protocol import error_codes
from harness.protocol.connection import Connection
from harness.protocol.frames import encode_response, with_size
from harness.protocol.rules import ProtocolRule
from harness.protocol.schemas import Schemas
from harness.protocol.state import ProxyRequest, ProxyState, ReleaseOrder, RuleStatus
from harness.record.protocol_journal import ProxyJournal, RuleEvent
from tests.support.protocol_schemas import small_schemas

OWN_ID = "shop-1"
END_TXN_VERSION, PRODUCE_VERSION = 1, 10


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.closed = True

    close = abort

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def take(self) -> list[bytes]:
        """Return the messages that were written since the last call."""
        messages = []
        while self.written:
            size = 4 + int.from_bytes(self.written[:4])
            messages.append(self.written[:size])
            self.written = self.written[size:]
        return messages


class ProxyUnderTest:
    """A protocol proxy whose clock the test moves."""

    def __init__(self, folder: Path, schemas: Schemas | None = None) -> None:
        self.schemas: Schemas = schemas or small_schemas()
        self.journal_file = folder / "protocol.jsonl"
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.now_s = 0.0
        self.state = ProxyState(
            self.schemas,
            ProxyJournal(self.journal_file),
            lambda delay_s, action: self._due.append((self.now_s + delay_s, action)),
        )
        self._links = 0
        self.events: list[RuleEvent] = []  # of the last rule

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
        due = [action for at_s, action in self._due if at_s <= self.now_s]
        self._due = [(at_s, action) for at_s, action in self._due if at_s > self.now_s]
        for action in due:
            action()

    def add(self, rule: ProtocolRule) -> None:
        self.state.answer_about_rule(ProxyRequest(add=rule))
        self.events = self.state.rules[rule.name].events

    def status(self, rule: str = "r") -> RuleStatus:
        return self.state.answer_about_rule(ProxyRequest(status=rule))

    def heal(self, rule: str = "r") -> RuleStatus:
        return self.state.answer_about_rule(ProxyRequest(remove=rule))

    def link(self, name: str = "") -> "LinkUnderTest":
        self._links += 1
        return LinkUnderTest(self, name or f"client:w{self._links}->1")


class ProxyProcess:
    """A protocol proxy in the place of its process, to which a run sends its messages."""

    problem = ""

    def __init__(self, proxy: ProxyUnderTest) -> None:
        self._proxy = proxy
        self.journal = proxy.journal_file

    def add(self, rule: ProtocolRule) -> RuleStatus:
        return self._answer(ProxyRequest(add=rule))

    def status(self, rule: str) -> RuleStatus:
        return self._answer(ProxyRequest(status=rule))

    def release(self, order: ReleaseOrder) -> RuleStatus:
        return self._answer(ProxyRequest(release=order))

    def remove(self, rule: str) -> RuleStatus:
        return self._answer(ProxyRequest(remove=rule))

    def undecoded(self) -> tuple[str, ...]:
        return self._proxy.state.undecoded.words

    def _answer(self, request: ProxyRequest) -> RuleStatus:
        status = self._proxy.state.answer_about_rule(request)
        self._proxy.state.journal.flush()
        return status


class LinkUnderTest:
    """One connection: what its client sends, and what its broker gets."""

    def __init__(self, proxy: ProxyUnderTest, link: str) -> None:
        self.schemas = proxy.schemas
        self.connection = Connection(proxy.state, link, proxy.state.next_number())
        self.client, self.broker = Wire(), Wire()
        self.connection.client.connection_made(self.client)
        self.connection.broker.connection_made(self.broker)

    def send(self, message: bytes) -> None:
        """Send bytes as the client."""
        self.connection.client.data_received(message)

    def answer(self, message: bytes) -> None:
        """Send bytes as the broker."""
        self.connection.broker.data_received(message)

    def request(
        self, api: str, version: int, correlation: int, body: dict[str, Any], client_id: str = "client"
    ) -> bytes:
        """Return a request as it is sent."""
        schema = self.schemas.api(api)
        header = {
            "RequestApiKey": schema.key,
            "RequestApiVersion": version,
            "CorrelationId": correlation,
            "ClientId": client_id,
        }
        encoded = self.schemas.request_header.encode(header, schema.request_header_version(version))
        return with_size(encoded + schema.request.encode(body, version))

    def end_txn(
        self, correlation: int, *, own_id: str = OWN_ID, commit: bool = True, version: int = 1
    ) -> bytes:
        body = {"TransactionalId": own_id, "ProducerId": 7, "ProducerEpoch": 0, "Committed": commit}
        return self.request("EndTxn", version, correlation, body)

    def add_offsets(self, correlation: int, *, own_id: str = OWN_ID) -> bytes:
        return self.request("AddOffsetsToTxn", 0, correlation, {"TransactionalId": own_id, "GroupId": "g"})

    def add_partitions(self, correlation: int, *, own_id: str = OWN_ID) -> bytes:
        return self.request("AddPartitionsToTxn", 0, correlation, {"TransactionalId": own_id})

    def commit_offsets(self, correlation: int, *, own_id: str = OWN_ID) -> bytes:
        return self.request("TxnOffsetCommit", 0, correlation, {"TransactionalId": own_id, "GroupId": "g"})

    def write_markers(self, correlation: int) -> bytes:
        return self.request("WriteTxnMarkers", 1, correlation, {"ProducerId": 7})

    def produce(
        self, correlation: int, *, acks: int = -1, own_id: str | None = OWN_ID, size: int = 10
    ) -> bytes:
        partitions = [{"Index": 3, "Records": b"r" * size}]
        body = {
            "TransactionalId": own_id,
            "Acks": acks,
            "TopicData": [{"Name": "out", "PartitionData": partitions}],
        }
        return self.request("Produce", PRODUCE_VERSION, correlation, body)

    def find_coordinator(self, correlation: int, version: int, *, own_id: str = OWN_ID) -> bytes:
        keys = {"Key": own_id} if version < 4 else {"CoordinatorKeys": [own_id]}
        return self.request("FindCoordinator", version, correlation, {"KeyType": 1, **keys})

    def coordinator(self, correlation: int, version: int, broker: int, *, own_id: str = OWN_ID) -> bytes:
        """Return a response to FindCoordinator. Each broker is at the port that is its number."""
        found = {"NodeId": broker, "Host": "localhost", "Port": broker, "ErrorCode": 0}
        body = {"ThrottleTimeMs": 0, **found, "Coordinators": [{"Key": own_id, **found}]}
        return encode_response(self.schemas, self.schemas.api("FindCoordinator"), version, correlation, body)

    def response(self, api: str, correlation: int, error: str = "NONE") -> bytes:
        """Return a response as a broker sends it."""
        code = error_codes()[error]
        if api == "Produce":
            partition = {"Index": 3, "ErrorCode": code, "BaseOffset": 5}
            body: dict[str, Any] = {
                "Responses": [{"Name": "out", "PartitionResponses": [partition]}],
                "ThrottleTimeMs": 0,
            }
            return encode_response(self.schemas, self.schemas.api(api), PRODUCE_VERSION, correlation, body)
        body = {"ThrottleTimeMs": 0, "ErrorCode": code}
        return encode_response(self.schemas, self.schemas.api(api), 1, correlation, body)

    def error_of(self, message: bytes, api: str = "EndTxn", version: int = 1) -> int:
        """Return the error code of a response that the client got."""
        schema = self.schemas.api(api)
        start = 8 if schema.response_header_version(version) == 0 else 9
        body, _ = schema.response.decode(memoryview(message), version, start)
        if api == "Produce":
            return int(body["Responses"][0]["PartitionResponses"][0]["ErrorCode"])
        return int(body["ErrorCode"])
