"""The process of one cell: it carries out one run, and leaves how that ended in a file.

It is asked by JSON on its standard input, so that no secret stands on a command line. What it says goes to its log.
"""

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fencepost.progress import LineProgress
from harness.errors import ExitStatus, FencepostError
from harness.secrets import redact_text
from harness.settings.options import FIELDS, Options


@dataclass(frozen=True)
class Ended:
    """How it ended: `error` says why the run has no evidence, or no verdict."""

    status: int
    error: str = ""

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Ended | None":
        """Read it back; None where the process did not come to write it."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def request(options: Options, command: str, ended: Path, *, judge: bool) -> bytes:
    """What the process is asked. `judge`: as soon as the run is over."""
    told = {key: getattr(options, field.name) for key, field in FIELDS.items()}
    body = {
        "options": {key: value for key, value in told.items() if value is not None},
        "command": command,
        "ended": str(ended),
        "judge": judge,
    }
    return json.dumps(body).encode()


def carry_out(body: dict[str, Any]) -> None:
    """Do as asked."""
    from fencepost.running import perform_alone, run

    options = Options().updated(body["options"])
    with closing(LineProgress(sys.stderr)) as progress:
        progress.say(f"seed {options.seed}")
        try:
            if body["judge"]:
                run(options, progress, command=body["command"])
            else:
                perform_alone(options, progress, command=body["command"])
        except FencepostError as error:
            ended = Ended(error.exit_status, redact_text(str(error)))
            progress.say(ended.error)
        except KeyboardInterrupt:
            ended = Ended(ExitStatus.INTERRUPTED, "the run was interrupted")
        else:
            ended = Ended(ExitStatus.VALID)
    ended.save(Path(body["ended"]))


def main() -> None:
    """Be the process of one cell."""
    carry_out(json.load(sys.stdin))


if __name__ == "__main__":
    main()
