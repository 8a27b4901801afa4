"""The address proxy: a process between the clients of a run and the brokers of an external cluster.

`client -> toxiproxy -> address proxy -> broker`. The process has a port for each client endpoint and broker. Requests
pass unchanged. In responses, it replaces each broker's address with the address of the endpoint's toxiproxy listener.
So every link of a client can be cut. Clients connect in plaintext, on this machine only. To the brokers, the proxy uses
TLS and SASL as the client-config file says.

The only argument of the process is `ProxySpec` as JSON, which contains no secret.
"""

import asyncio
import logging
import ssl
import struct
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.clients.client_properties import use_client_config
from harness.common.errors import EnvironmentFailure
from harness.network.kafka_answers import HOST, AddressMap, contains_addresses, rewrite_response
from harness.processes.encoding import decode
from harness.wire.protocol import MAX_RESPONSE_BYTES, Address, WireError, decode_response, encode_request
from harness.wire.security import sasl_requests, tls_refusal

CONNECT_TIMEOUT_S = 10.0
BUFFER_BYTES = 1 << 20
LISTENING = "listening on every port"
"""The line that the process prints after it listens on every port."""
_log = logging.getLogger("proxy")


@dataclass(frozen=True)
class ProxySpec:
    """The argument of the process."""

    client_config: Path | None  # a file of client properties, for connections to the brokers
    brokers: Mapping[int, tuple[str, int]]  # by broker: its own host and port
    ports: Mapping[str, Mapping[int, int]]  # by endpoint and broker: the port on which this process listens
    dial_ports: Mapping[str, Mapping[int, int]]  # by endpoint and broker: the port that clients must dial


class ProxyPort:
    """One port, for the connections of one client endpoint to one broker."""

    def __init__(self, broker: Address, context: ssl.SSLContext | None, addresses: AddressMap) -> None:
        self._broker = broker
        self._context = context
        self._addresses = addresses

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end closes it."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                broker_reader, broker_writer = await self._connect()
        except (OSError, EOFError, EnvironmentFailure) as error:  # TimeoutError is an OSError
            _log.warning("no connection to %s: %s", self._broker, error)
            writer.close()
            return
        pending: deque[tuple[int, int, int]] = deque()
        directions = [
            asyncio.create_task(self._forward_requests(reader, broker_writer, pending)),
            asyncio.create_task(self._forward_responses(broker_reader, writer, pending)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            for end in (writer, broker_writer):
                end.close()
            for outcome in await asyncio.gather(*directions, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, OSError | EOFError):
                    _log.error("a connection to %s was closed: %s", self._broker, outcome)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the broker, and authenticate on it."""
        broker = self._broker
        name = broker.host if self._context else None
        try:
            reader, writer = await asyncio.open_connection(
                broker.host, broker.port, ssl=self._context, server_hostname=name, limit=BUFFER_BYTES
            )
        except ssl.SSLError as error:
            raise tls_refusal(error, str(broker)) from error
        try:
            if broker.security.sasl:
                await self._authenticate(reader, writer)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = sasl_requests(self._broker.security, self._broker.host, str(self._broker))

        def next_request(response: Any) -> Any:
            with suppress(StopIteration):
                return steps.send(response)
            return None

        number, response = 0, None
        # `next_request` may request a token, which blocks, so it runs in a thread.
        while (request := await asyncio.to_thread(next_request, response)) is not None:
            number += 1
            writer.write(encode_request(request, number))
            response = decode_response(request, (await _read_message(reader))[4:], str(self._broker))

    async def _forward_requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pending: deque[tuple[int, int, int]],
    ) -> None:
        """Send requests on to the broker, and remember those whose responses must be changed."""
        while True:
            message = await _read_message(reader)
            key, version, number = struct.unpack_from(">hhi", message, 4)
            if contains_addresses(key, version):
                pending.append((number, key, version))
            writer.write(message)
            await writer.drain()

    async def _forward_responses(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pending: deque[tuple[int, int, int]],
    ) -> None:
        """Send responses on to the client with the proxies' addresses. An unreadable response ends the connection."""
        while True:
            message = await _read_message(reader)
            (number,) = struct.unpack_from(">i", message, 4)
            if any(number == pending_number for pending_number, _, _ in pending):
                while (request := pending.popleft())[0] != number:  # a Produce with acks=0 has no response
                    pass
                message = self._rewrite(request[1], request[2], message)
            writer.write(message)
            await writer.drain()

    def _rewrite(self, key: int, version: int, message: bytes) -> bytes:
        known_before = len(self._addresses.unknown_brokers)
        response = rewrite_response(key, version, message[4:], self._addresses)
        if len(self._addresses.unknown_brokers) > known_before:
            brokers = ", ".join(map(str, sorted(self._addresses.unknown_brokers)))
            _log.error("brokers that joined the cluster during the run cannot be reached: %s", brokers)
        return struct.pack(">i", len(response)) + response


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """Read a request or a response with its length. Raises `EOFError` at the end, `WireError` for a wrong length."""
    head = await reader.readexactly(4)
    size = int.from_bytes(head)
    if not 4 <= size <= MAX_RESPONSE_BYTES:
        raise WireError(f"a message of {size} bytes is not Kafka's protocol")
    return head + await reader.readexactly(size)


async def carry(spec: ProxySpec) -> None:
    """Listen on every port until the process ends."""
    security = use_client_config(spec.client_config).security
    context = security.context() if security.tls else None
    servers = []  # a reference keeps a server from being collected
    for endpoint, ports in spec.ports.items():
        addresses = {broker: (HOST, port) for broker, port in spec.dial_ports[endpoint].items()}
        for broker, port in ports.items():
            proxy_port = ProxyPort(Address(*spec.brokers[broker], security), context, AddressMap(addresses))
            servers.append(await asyncio.start_server(proxy_port.serve, HOST, port, limit=BUFFER_BYTES))
    _log.warning(LISTENING)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Run the proxy. If it cannot start, the last line that it prints says why."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    try:
        asyncio.run(carry(decode(ProxySpec, sys.argv[1])))
    except (OSError, EnvironmentFailure) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
