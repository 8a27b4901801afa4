"""The process of one cell: it starts one run, and stores the result in a file.

The request is JSON on standard input, so that no secret is on a command line. The output is the log of the cell.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fencepost.progress import LineProgress
from harness.errors import ExitStatus, FencepostError
from harness.secrets import redact_text
from harness.settings.options import FIELDS, Options


@dataclass(frozen=True)
class CellRequest:
    """What the process does."""

    options: Mapping[str, Any]  # by key, with secrets
    command: str  # repeats the run
    result: str  # the file for the result
    judge: bool  # whether the process checks the run as well

    @classmethod
    def of(cls, options: Options, command: str, result: Path, *, judge: bool) -> "CellRequest":
        """The request for a run with these options."""
        values = {key: getattr(options, field.name) for key, field in FIELDS.items()}
        given = {key: value for key, value in values.items() if value is not None}
        return cls(given, command, str(result), judge)

    def encode(self) -> bytes:
        """The request as the process reads it."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class CellResult:
    """How the process ended."""

    status: int
    error: str = ""  # why the run has no evidence, or no verdict

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "CellResult | None":
        """Read the file; None if the process was killed before it wrote it."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def run_cell(request: CellRequest) -> None:
    """Start the run, and store its result."""
    from fencepost.running import perform_alone, run

    options = Options().updated(request.options)
    with closing(LineProgress(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        try:
            if request.judge:
                run(options, progress, command=request.command)
            else:
                perform_alone(options, progress, command=request.command)
        except FencepostError as error:
            result = CellResult(error.exit_status, redact_text(str(error)))
            progress.say(result.error)
        except KeyboardInterrupt:
            result = CellResult(ExitStatus.INTERRUPTED, "the run was interrupted")
        else:
            result = CellResult(ExitStatus.VALID)
    result.save(Path(request.result))


if __name__ == "__main__":
    run_cell(CellRequest(**json.load(sys.stdin)))
