"""The process of one cell: it starts one run, and stores the result in a file.

The request is JSON on standard input, so that no secret is on a command line. The output is the log of the cell.
"""

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fencepost.runs.progress import LineProgress
from harness.common.errors import ExitStatus, FencepostError
from harness.common.wording import redact_text
from harness.processes.messages import DecodeError, ProcessMessage, decode, encode
from harness.settings.options import Options


class CellRequest(ProcessMessage, frozen=True):
    """The task of the process."""

    options: Options  # with secrets
    command: str  # repeats the run
    result_file: Path  # takes the `CellResult`
    judge: bool  # whether the process checks the run as well
    explore: Mapping[str, Any] = {}  # what to explore; empty: it is a run


class CellResult(ProcessMessage, frozen=True):
    """The result of the process."""

    status: int
    error: str = ""  # why the run has no evidence, or no verdict

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        part.write_bytes(encode(self))
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "CellResult | None":
        """Read the file; None if the process was killed before it wrote it."""
        try:
            return decode(cls, path.read_bytes())
        except (OSError, DecodeError):
            return None


def run_cell(request: CellRequest) -> None:
    """Start the run, and store its result."""
    from fencepost.runs.carry_out import run, run_without_verdict

    options = request.options
    with closing(LineProgress(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        try:
            if request.explore:
                from fencepost.suites.explorations import carry_out

                carry_out(options, request.explore, progress)
            elif request.judge:
                run(options, progress, command=request.command)
            else:
                run_without_verdict(options, progress, command=request.command)
        except FencepostError as error:
            result = CellResult(error.exit_status, redact_text(str(error)))
            progress.say(result.error)
        except KeyboardInterrupt:
            result = CellResult(ExitStatus.INTERRUPTED, "the run was interrupted")
        else:
            result = CellResult(ExitStatus.VALID)
    result.save(request.result_file)


if __name__ == "__main__":
    run_cell(decode(CellRequest, sys.stdin.buffer.read()))
