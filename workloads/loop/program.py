"""Our own programs: the loop of a stage, the feeder and the readers, each a Python process of ours."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.programs import Launch, Seat


@dataclass(frozen=True)
class PythonProgram:
    """A module that is given a specification: what the run tells all, the seat, and what this role alone is told."""

    module: str  # handed in by the front door
    common: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)  # such as where a client of another version lies

    def launch(self, seat: Seat) -> Launch:
        """`python -P -m MODULE SPECIFICATION`, with its end of the control line."""
        spec = {
            **self.common,
            "role": seat.role.value,
            "journal": seat.journal,
            "path": str(seat.path),
            "bootstrap": seat.bootstrap,
            "zero_ns": seat.zero_ns,
            "channel": seat.channel,
            "stage": seat.stage,
            "worker": seat.worker,
            "group": seat.group,
            "transactional_id": seat.transactional_id,
            "process": seat.process,
            **seat.more,
        }
        told = {key: value for key, value in spec.items() if value is not None}
        argv = [sys.executable, "-P", "-m", self.module, json.dumps(told)]
        return Launch(argv, pass_fds=(seat.channel,), env=self.env)
