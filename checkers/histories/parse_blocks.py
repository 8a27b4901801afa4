"""Parse blocks of history files on all processors of this machine, in processes of their own.

    python -m checkers.histories.parse_blocks FILE

parses the blocks that the first line of standard input names in JSON, and writes their rows to an Arrow file. It ends
when its standard input does, so it cannot outlive this process. Threads would not do: the decoders hold the
interpreter's lock.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import pyarrow as pa

from checkers.histories.blocks import BLOCK_ROWS, Block, read_block
from harness.common.errors import AnalysisFailed

LEAST_BYTES = 2 << 20
"""Less text than this is parsed here: a process takes longer to start."""


class Parsing:
    """Blocks that processes of this machine parse since this object was made."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._folder = tempfile.TemporaryDirectory(prefix="fencepost-parsed-")
        few = len(blocks) < 2 or sum(block.cost for block in blocks) < LEAST_BYTES
        self._parsers = [
            (_start(share, rows, log), rows, log)
            for number, share in enumerate(
                _shares(blocks, 0 if few else min(os.cpu_count() or 1, len(blocks)))
            )
            for rows, log in [[Path(self._folder.name) / f"{number}.{kind}" for kind in ("arrow", "log")]]
        ]

    def rows(self) -> pa.Table:
        """Return the rows of all blocks as BLOCK_ROWS. Raises `AnalysisFailed` if a parser ends without them."""
        tables = []
        with self._folder, ExitStack() as stack:
            for parser, _, _ in self._parsers:
                stack.enter_context(parser)
            for parser, rows, log in self._parsers:
                if (status := parser.wait()) != 0:
                    last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
                    raise AnalysisFailed(f"a parser of a history ended with status {status}: {last}")
                with pa.memory_map(str(rows)) as source:
                    tables.append(pa.ipc.open_file(source).read_all())
        here = () if self._parsers else (rows for block in self._blocks for rows in read_block(block))
        return pa.concat_tables([*tables, pa.Table.from_batches(here, BLOCK_ROWS)])


def _start(blocks: Sequence[Block], rows: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Start a parser. It has its own session, so that Ctrl-C in a terminal does not reach it."""
    command = [sys.executable, "-P", "-m", "checkers.histories.parse_blocks", str(rows)]
    with log.open("wb") as errors:
        parser = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors, start_new_session=True)
    assert parser.stdin is not None
    parser.stdin.write(json.dumps([asdict(block) for block in blocks]).encode() + b"\n")
    parser.stdin.flush()
    return parser


def _shares(blocks: Sequence[Block], count: int) -> list[list[Block]]:
    """Deal the blocks, the largest first, to shares of about the same cost."""
    shares: list[list[Block]] = [[] for _ in range(count)]
    costs = [0] * count
    for block in sorted(blocks, key=lambda block: -block.cost) if count else ():
        least = costs.index(min(costs))
        shares[least].append(block)
        costs[least] += max(block.cost, 1)
    return shares


def main() -> None:
    """Parse the blocks that standard input names."""
    blocks = [Block(**block) for block in json.loads(sys.stdin.readline())]
    Thread(target=_end_with_input, daemon=True).start()
    with pa.OSFile(sys.argv[1], "wb") as sink, pa.ipc.new_file(sink, BLOCK_ROWS) as writer:
        for block in blocks:
            for rows in read_block(block):
                writer.write_batch(rows)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
