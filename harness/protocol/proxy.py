"""The process of the protocol proxy, which sits on links between clients and brokers, and between brokers.

`client -> toxiproxy -> protocol proxy -> broker`. It listens on a port for each link. The run sends it rules over a
control socket while the run goes on, one JSON message a line, and gets one reply to each: the number of the message,
a space, and JSON.

Its only argument is `ProxySpec` as JSON, which contains no secret.
"""

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.clients.client_properties import use_client_config
from harness.common.errors import EnvironmentFailure
from harness.processes.messages import ProcessMessage, decode, encode
from harness.protocol.connection import Connection
from harness.protocol.frames import Side
from harness.protocol.responses import HOST, AddressMap
from harness.protocol.schemas import Schemas
from harness.protocol.state import ProxyRequest, ProxyState
from harness.record.protocol_journal import ProxyJournal
from harness.wire.protocol import Address, decode_response, encode_request, sasl_requests
from harness.wire.security import tls_refusal

CONNECT_TIMEOUT_S = 10.0
FLUSH_EVERY_S = 0.5
LISTENING = "listening on every port"
"""What the process prints after it listens on every port."""
_log = logging.getLogger("proxy")


class ProxyLink(ProcessMessage, frozen=True):
    """One link through the proxy."""

    name: str
    port: int  # where the proxy listens
    broker: tuple[str, int]  # host and port of the broker
    dial: Mapping[int, int] | None = (
        None  # by broker: the port that clients must dial; None: addresses are not changed
    )


class ProxySpec(ProcessMessage, frozen=True):
    """The argument of the process."""

    jar: Path  # `kafka-clients`, which has the schemas
    journal: Path
    links: tuple[ProxyLink, ...]
    client_config: Path | None = None  # a file of client properties, for connections to the brokers
    control: int | None = None  # the file descriptor of the control socket
    hosts: tuple[str, ...] = (HOST,)  # where it listens


class Listener:
    """One port of the proxy."""

    def __init__(
        self, proxy: ProxyState, link: ProxyLink, broker: Address, context: ssl.SSLContext | None
    ) -> None:
        self._proxy = proxy
        self._link = link
        self._broker = broker
        self._context = context
        dial = link.dial
        self._addresses = (
            None if dial is None else AddressMap({number: (HOST, port) for number, port in dial.items()})
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self) -> Side:
        """Return the client's side of a new connection."""
        connection = Connection(self._proxy, self._link.name, self._proxy.next_number(), self._addresses)

        def connect(transport: asyncio.Transport) -> None:
            transport.pause_reading()  # until the broker is connected
            task = asyncio.ensure_future(self._connect(connection, transport))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        connection.client.on_made = connect
        return connection.client

    async def _connect(self, connection: Connection, client: asyncio.Transport) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._dial(connection.broker)
        except (OSError, EOFError, EnvironmentFailure) as error:  # TimeoutError is an OSError
            self._proxy.report(f"no connection to {self._broker}: {error}")
            connection.close()
            return
        if connection.client_gone:
            connection.close()
        elif not client.is_closing():
            client.resume_reading()

    async def _dial(self, side: Side) -> None:
        """Open a connection to the broker, and authenticate on it."""
        broker = self._broker
        name = broker.host if self._context else None
        try:
            if not broker.security.sasl:
                loop = asyncio.get_running_loop()
                await loop.create_connection(
                    lambda: side, broker.host, broker.port, ssl=self._context, server_hostname=name
                )
                return
            reader, writer = await asyncio.open_connection(
                broker.host, broker.port, ssl=self._context, server_hostname=name
            )
        except ssl.SSLError as error:
            raise tls_refusal(error, str(broker)) from error
        try:
            await self._authenticate(reader, writer)
        except BaseException:
            writer.close()
            raise
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        side.stream = writer
        transport.set_protocol(side)
        side.connection_made(transport)

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = sasl_requests(self._broker.security, self._broker.host, str(self._broker))

        def next_request(answer: Any) -> Any:
            with suppress(StopIteration):
                return steps.send(answer)
            return None

        number, answer = 0, None
        while (
            request := await asyncio.to_thread(next_request, answer)
        ) is not None:  # it may request a token, which blocks
            number += 1
            writer.write(encode_request(request, number))
            head = await reader.readexactly(4)
            answer = decode_response(
                request, await reader.readexactly(int.from_bytes(head)), str(self._broker)
            )


async def carry(spec: ProxySpec) -> None:
    """Listen on every port until the process ends, and answer the run's messages.

    An error of the proxy itself ends it, and so the run: a connection that it lost would look like a fault.
    """
    security = use_client_config(spec.client_config).security
    context = security.context() if security.tls else None
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    loop.set_exception_handler(lambda _, context: _fail(failed, context))
    proxy = ProxyState(Schemas.of_jar(spec.jar), ProxyJournal(spec.journal), loop.call_later)
    servers = []  # a reference keeps a server from being collected
    for link in spec.links:
        listener = Listener(proxy, link, Address(*link.broker, security), context)
        servers.append(await loop.create_server(listener.accept, list(spec.hosts), link.port))
    _log.warning(LISTENING)
    _flush_often(proxy.journal)
    if spec.control is None:
        await failed
    else:
        answering = asyncio.ensure_future(_answer(proxy, socket.socket(fileno=spec.control)))
        done, _ = await asyncio.wait({answering, failed}, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()


def _fail(failed: asyncio.Future[None], context: Mapping[str, Any]) -> None:
    error = context.get("exception") or EnvironmentFailure(context["message"])
    if not failed.done():
        failed.set_exception(error)


def _flush_often(journal: ProxyJournal) -> None:
    journal.flush()
    asyncio.get_running_loop().call_later(FLUSH_EVERY_S, _flush_often, journal)


async def _answer(proxy: ProxyState, control: socket.socket) -> None:
    """Answer messages until the run closes the socket. Then the process ends."""
    reader, writer = await asyncio.open_connection(sock=control)
    while line := await reader.readline():
        request = decode(ProxyRequest, line)
        reply = proxy.answer(request)
        proxy.journal.flush()
        writer.write(b"%d %s\n" % (request.number, encode(reply)))
        await writer.drain()
    raise EnvironmentFailure("the run has ended")


def main() -> None:
    """Run the proxy. If it cannot start, the last line that it prints says why."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    try:
        asyncio.run(carry(decode(ProxySpec, sys.argv[1])))
    except (OSError, EnvironmentFailure) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
