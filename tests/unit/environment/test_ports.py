import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment.resources import END, FIRST, HOST, SIZE, PortBlock

RESERVE_SCRIPT = """
import sys
from pathlib import Path
from harness.environment.resources import PortBlock
with PortBlock(Path(sys.argv[1])) as block:
    print(block.first, flush=True)
    sys.stdin.readline()
"""


def test_two_blocks_share_no_port(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block, PortBlock(tmp_path) as other:
        assert {block.take() for _ in range(50)}.isdisjoint(other.take() for _ in range(50))
        assert abs(block.first - other.first) >= SIZE
        assert all(FIRST <= first <= END - SIZE for first in (block.first, other.first))


@pytest.mark.processes
def test_blocks_of_processes_are_disjoint_and_free_again_after_a_kill(tmp_path: Path) -> None:
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", RESERVE_SCRIPT, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    first_ports = [int(holder.stdout.readline()) for holder in holders if holder.stdout]
    for holder in holders:
        holder.kill()
        holder.communicate()
    assert len(set(first_ports)) == 3
    with PortBlock(tmp_path, first_port=first_ports[0]) as again:
        assert again.first == first_ports[0]


def test_a_port_in_use_is_skipped(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block, socket.create_server((HOST, block.first)):
        assert block.take() != block.first


def test_the_error_for_a_fixed_port_in_use_names_it(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block:
        first = block.take()
    with (
        PortBlock(tmp_path, first_port=first) as block,
        socket.create_server((HOST, first)),
        pytest.raises(EnvironmentFailure, match=f"port {first} is taken"),
    ):
        block.take()


def test_a_fixed_block_that_overlaps_the_block_of_another_run_is_refused(tmp_path: Path) -> None:
    with PortBlock(tmp_path) as block:
        refused = PortBlock(tmp_path, first_port=block.first + 100)
        with pytest.raises(EnvironmentFailure, match="taken by another run"), refused:
            pass
        with PortBlock(tmp_path, first_port=block.first + 10 * SIZE):
            pass


def test_a_block_without_a_free_port_is_an_error(tmp_path: Path) -> None:
    no_free_port = pytest.raises(EnvironmentFailure, match="no port is free any more")
    with PortBlock(tmp_path) as block, no_free_port:
        for _ in range(SIZE + 1):
            block.take()
