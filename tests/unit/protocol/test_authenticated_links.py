"""A connection on which the proxy has authenticated goes on to carry messages."""

import asyncio
import gc
from pathlib import Path

from harness.protocol.frames import with_size
from harness.protocol.proxy import Listener, ProxyLink
from harness.protocol.responses import HOST
from harness.protocol.state import ProxyState
from harness.record.protocol_journal import ProxyJournal
from harness.wire.protocol import Address
from harness.wire.security import Security
from tests.support.protocol_link import ProxyUnderTest
from tests.support.protocol_schemas import small_schemas

WITHIN_S = 10
SECURITY = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="guest", password="plant-4711")
ACCEPTED = {17: b"\0\0" + b"\0\0\0\1\0\5PLAIN", 36: b"\0\0\xff\xff\0\0\0\0" + bytes(8)}
"""By API: what a broker answers to SaslHandshake and SaslAuthenticate."""


async def _broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept the authentication, and send all other requests back."""
    while head := await reader.read(4):
        request = await reader.readexactly(int.from_bytes(head))
        answer = ACCEPTED.get(int.from_bytes(request[:2]))
        writer.write(head + request if answer is None else with_size(request[4:8] + answer))
    writer.close()


def test_messages_pass_after_the_proxy_has_authenticated(tmp_path: Path) -> None:
    link = ProxyUnderTest(tmp_path).link()

    async def through_proxy() -> None:
        loop = asyncio.get_running_loop()
        broker = await asyncio.start_server(_broker, HOST, 0)
        address = Address(HOST, broker.sockets[0].getsockname()[1], SECURITY)
        journal = tmp_path / "real.jsonl"
        state = ProxyState(small_schemas(), ProxyJournal(journal), loop.call_later)
        listener = Listener(state, ProxyLink("client:w0->1", 0, (HOST, address.port)), address, None)
        server = await loop.create_server(listener.accept, HOST, 0)
        reader, writer = await asyncio.open_connection(HOST, server.sockets[0].getsockname()[1])
        for number in (1, 2):
            writer.write(message := link.end_txn(number))
            assert await reader.readexactly(len(message)) == message
            gc.collect()
        writer.close()
        server.close()
        broker.close()
        state.journal.flush()
        assert SECURITY.password not in journal.read_text()

    asyncio.run(asyncio.wait_for(through_proxy(), WITHIN_S))
