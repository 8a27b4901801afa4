"""The process of the protocol proxy."""

import asyncio
import socket
from pathlib import Path

import pytest

from harness.protocol.proxy import ProxySpec, Schemas, carry
from tests.support.protocol_schemas import small_schemas


@pytest.mark.parametrize("controlled", [True, False])
def test_an_error_of_its_own_ends_it(
    controlled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost connection would look like a fault."""

    def callback() -> None:
        raise ValueError("a mistake in the proxy")

    async def call_back_while_it_runs(spec: ProxySpec) -> None:
        running = asyncio.ensure_future(carry(spec))
        await asyncio.wait({running}, timeout=0)  # it has come to its first wait
        asyncio.get_running_loop().call_soon(callback)
        async with asyncio.timeout(20):
            await running

    schemas = small_schemas()
    monkeypatch.setattr(Schemas, "of_jar", lambda jar: schemas)
    run_end, proxy_end = socket.socketpair()
    with run_end, proxy_end:
        control = proxy_end.detach() if controlled else None
        spec = ProxySpec(tmp_path / "jar", tmp_path / "journal", (), control=control)
        with pytest.raises(ValueError, match="a mistake in the proxy"):
            asyncio.run(call_back_while_it_runs(spec))
