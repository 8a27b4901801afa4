"""Our own programs: the loop of a stage, the feeder and the readers, each a Python process of ours."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.processes.encoding import encode
from harness.processes.program import CommandLine
from harness.processes.specs import ProcessSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class PythonProgram:
    """A module that is run with two specs: that of the process, and one for all processes of the program."""

    module: str  # handed in by the front door
    common: "DataclassInstance"
    env: Mapping[str, str] = field(default_factory=dict)  # such as where a client of another version lies

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return `python -P -m MODULE PROCESS_SPEC COMMON_SPEC`, with its end of the control line."""
        argv = [sys.executable, "-P", "-m", self.module, encode(spec).decode(), encode(self.common).decode()]
        return CommandLine(argv, pass_fds=() if spec.control_fd is None else (spec.control_fd,), env=self.env)
