"""A process that stands before the brokers of a cluster that is not ours, so that every link of a client can be struck.

`client -> toxiproxy -> this -> broker`. It has a port for each client endpoint and broker. What a client asks there
goes to that broker as it is; in the answers each broker bears the address of the endpoint's own proxy for it. To the
client it speaks plaintext, on this machine alone; to the broker it speaks TLS and SASL as the client-config file says.

It is told what to do by one line of JSON, its only argument, which holds no secret: see `ProxySpec`.
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
from harness.wire.protocol import LARGEST_ANSWER, Address, WireError, decode_response, encode_request
from harness.wire.security import sasl_requests, tls_refusal

CONNECT_TIMEOUT_S = 10.0
BUFFER_BYTES = 1 << 20
LISTENING = "listening on every port"
"""What the process prints once that is so."""
_log = logging.getLogger("proxy")


@dataclass(frozen=True)
class ProxySpec:
    """What the process is to do."""

    client_config: Path | None  # a file of client properties: how the brokers are connected to
    brokers: Mapping[int, tuple[str, int]]  # by broker: its own host and port
    ports: Mapping[str, Mapping[int, int]]  # by endpoint and broker: where this process listens
    dial_ports: Mapping[str, Mapping[int, int]]  # by endpoint and broker: the port that clients are to dial


class ProxyPort:
    """One port: what one client endpoint says to one broker."""

    def __init__(self, broker: Address, context: ssl.SSLContext | None, addresses: AddressMap) -> None:
        self._broker = broker
        self._context = context
        self._addresses = addresses

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end closes it."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                above, below = await self._connected()
        except (OSError, EOFError, EnvironmentFailure) as error:  # a time-out is an OSError
            _log.warning("no connection to %s: %s", self._broker, error)
            writer.close()
            return
        asked: deque[tuple[int, int, int]] = deque()
        ways = [
            asyncio.create_task(self._requests(reader, below, asked)),
            asyncio.create_task(self._answers(above, writer, asked)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, below):
                end.close()
            for ended in await asyncio.gather(*ways, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, OSError | EOFError):
                    _log.error("a connection to %s was ended: %s", self._broker, ended)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the broker on which it knows who we are."""
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
                await self._introduced(reader, writer)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _introduced(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = sasl_requests(self._broker.security, self._broker.host, str(self._broker))

        def next_request(answer: Any) -> Any:
            with suppress(StopIteration):
                return steps.send(answer)
            return None

        number, answer = 0, None
        while (
            request := await asyncio.to_thread(next_request, answer)
        ) is not None:  # it may ask for a token
            number += 1
            writer.write(encode_request(request, number))
            answer = decode_response(request, (await _message(reader))[4:], str(self._broker))

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[tuple[int, int, int]]
    ) -> None:
        """What the client asks; notes those of which the answers have to be rewritten."""
        while True:
            message = await _message(reader)
            key, version, number = struct.unpack_from(">hhi", message, 4)
            if contains_addresses(key, version):
                asked.append((number, key, version))
            writer.write(message)
            await writer.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[tuple[int, int, int]]
    ) -> None:
        """What the broker answers, with the addresses of the proxies. One that cannot be read is not passed on."""
        while True:
            message = await _message(reader)
            (number,) = struct.unpack_from(">i", message, 4)
            if any(number == one for one, _, _ in asked):
                while (due := asked.popleft())[0] != number:  # a Produce with acks=0 has no answer
                    pass
                message = self._told_otherwise(due[1], due[2], message)
            writer.write(message)
            await writer.drain()

    def _told_otherwise(self, key: int, version: int, message: bytes) -> bytes:
        before = len(self._addresses.unknown_brokers)
        answer = rewrite_response(key, version, message[4:], self._addresses)
        if len(self._addresses.unknown_brokers) > before:
            named = ", ".join(map(str, sorted(self._addresses.unknown_brokers)))
            _log.error("brokers that joined the cluster during the run cannot be reached: %s", named)
        return struct.pack(">i", len(answer)) + answer


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer with its length. Raises `EOFError` at the end, `WireError` where it is none."""
    head = await reader.readexactly(4)
    size = int.from_bytes(head)
    if not 4 <= size <= LARGEST_ANSWER:
        raise WireError(f"a message of {size} bytes is none of Kafka's")
    return head + await reader.readexactly(size)


async def carry(spec: ProxySpec) -> None:
    """Listen on every port until the process is ended."""
    security = use_client_config(spec.client_config).security
    context = security.context() if security.tls else None
    servers = []  # which must be kept
    for endpoint, ports in spec.ports.items():
        told = {broker: (HOST, port) for broker, port in spec.dial_ports[endpoint].items()}
        for broker, port in ports.items():
            proxy_port = ProxyPort(Address(*spec.brokers[broker], security), context, AddressMap(told))
            servers.append(await asyncio.start_server(proxy_port.serve, HOST, port, limit=BUFFER_BYTES))
    _log.warning(LISTENING)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Be the proxy. The last line that is printed says why it could not be."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    try:
        asyncio.run(carry(decode(ProxySpec, sys.argv[1])))
    except (OSError, EnvironmentFailure) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
