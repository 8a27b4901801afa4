"""The run takes each reply of the protocol proxy for the message to which it belongs."""

import socket
from pathlib import Path

import orjson
import pytest

from harness.cluster.proxies import ProtocolProxy
from harness.common.errors import FaultFailed
from harness.processes.messages import encode
from harness.protocol.state import RuleStatus


def test_a_reply_that_comes_too_late_is_not_that_to_the_next_message(tmp_path: Path) -> None:
    proxy = ProtocolProxy(tmp_path / "jar", tmp_path, [])
    own, other = socket.socketpair()
    own.settimeout(0.05)
    proxy._control = own
    with own, other:
        with pytest.raises(FaultFailed, match="does not answer"):
            proxy.status("late")
        first = orjson.loads(other.recv(1 << 16))["number"]
        for number, status in ((first, RuleStatus(acted=1)), (first + 1, RuleStatus(acted=2))):
            other.sendall(b"%d %s\n" % (number, encode(status)))
        assert proxy.status("late").acted == 2
