"""The entry of every process of a bench; the bench hands it a specification."""

import json
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.benchmark.shifts import Shifts
from fencepost.benchmark.sight import Sight
from fencepost.process import client_of
from harness.clients.control import Control
from harness.history import Role
from harness.record.events import Begun
from harness.record.journal import Journal


def main(argv: Sequence[str] | None = None) -> None:
    """Be a worker or the reader until told to stop."""
    spec: dict[str, Any] = json.loads((argv or sys.argv[1:])[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the bench, which then says stop
    control = Control(socket.socket(fileno=spec["channel"]))
    if Role(spec["role"]) is Role.OBSERVER:
        places = [(topic, partition) for topic, partition in spec["places"]]
        Sight(spec["bootstrap"], places, Path(spec["path"]), control).run()
        return
    begun = Begun(spec["journal"], role=spec["role"], bootstrap=spec["bootstrap"])
    with Journal(Path(spec["path"]), spec["zero_ns"], begun) as journal:
        Shifts(spec, client_of(spec), journal, control).run()


if __name__ == "__main__":
    main()
