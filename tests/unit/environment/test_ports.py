import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment.ports import END, FIRST, HOST, SIZE, PortBlock

HOLD = """
import sys
from pathlib import Path
from harness.environment.ports import PortBlock
with PortBlock(Path(sys.argv[1])) as block:
    print(block.first, flush=True)
    sys.stdin.readline()
"""


def test_two_blocks_share_no_port(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as one, PortBlock(tmp_path) as other:
        assert {one.take() for _ in range(50)}.isdisjoint(other.take() for _ in range(50))
        assert abs(one.first - other.first) >= SIZE
        assert all(FIRST <= block.first <= END - SIZE for block in (one, other))


def test_blocks_of_several_processes_are_disjoint_and_return_when_one_is_killed(tmp_path: Path) -> None:
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    taken = [int(holder.stdout.readline()) for holder in holders if holder.stdout]
    for holder in holders:
        holder.kill()
        holder.communicate()
    assert len(set(taken)) == 3
    with PortBlock(tmp_path, first_port=taken[0]) as again:
        assert again.first == taken[0]


def test_a_port_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block, socket.socket() as server:
        server.bind((HOST, block.first))
        server.listen()
        assert block.take() != block.first


def test_a_fixed_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as found:
        first = found.take()
    with PortBlock(tmp_path, first_port=first) as block, socket.socket() as server:
        server.bind((HOST, first))
        server.listen()
        with pytest.raises(EnvironmentFailure, match=f"port {first} is taken"):
            block.take()


def test_a_fixed_block_that_lies_across_another_runs_block_is_refused(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block:
        refused = PortBlock(tmp_path, first_port=block.first + 100)
        with pytest.raises(EnvironmentFailure, match="taken by another run"), refused:
            pass
        with PortBlock(tmp_path, first_port=block.first + 10 * SIZE):
            pass


def test_a_block_that_is_used_up_says_so(tmp_path: Path) -> None:
    no_more = pytest.raises(EnvironmentFailure, match="no port is free any more")
    with PortBlock(tmp_path) as block, no_more:
        for _ in range(SIZE + 1):
            block.take()
