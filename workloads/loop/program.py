"""The programs of a workload: workers, feeder and readers, each a Python process."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.processes.encoding import ProcessMessage, encode
from harness.processes.program import CommandLine
from harness.processes.specs import ProcessSpec


@dataclass(frozen=True)
class PythonProgram:
    """A module that runs with two specs: one for the process, and one shared by all processes of the program."""

    module: str  # set by `fencepost`
    common: ProcessMessage
    env: Mapping[str, str] = field(default_factory=dict)  # for example the path of another client version

    def command_line(self, spec: ProcessSpec) -> CommandLine:
        """Return `python -P -m MODULE PROCESS_SPEC COMMON_SPEC`. The process inherits its end of the control line."""
        argv = [sys.executable, "-P", "-m", self.module, encode(spec).decode(), encode(self.common).decode()]
        return CommandLine(argv, pass_fds=() if spec.control_fd is None else (spec.control_fd,), env=self.env)
