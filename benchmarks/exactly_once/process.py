"""The entry point of every process of a bench. Its arguments are a `ProcessSpec` and a `BenchSpec`, as JSON."""

import signal
import socket
import sys
from collections.abc import Sequence

from benchmarks.exactly_once.outputs import OutputReader
from benchmarks.exactly_once.worker_process import BenchSpec, Shifts
from fencepost.runs.process import client_of
from harness.processes.messages import decode
from harness.processes.specs import ObserverSpec, ProcessSpec
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control


def main(argv: Sequence[str] | None = None) -> None:
    """Run as a worker or as the reader until the bench sends the command to stop."""
    process_text, bench_text = argv or sys.argv[1:]
    process, bench = decode(ProcessSpec, process_text), decode(BenchSpec, bench_text)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # only the bench handles Ctrl-C; it then sends the command to stop
    control = Control(socket.socket(fileno=process.control_fd))
    path = process.journal.path
    if isinstance(process.task, ObserverSpec):
        OutputReader(process.bootstrap, process.task.partitions, path, control).run()
        return
    assert process.worker is not None, "a bench has workers and an observer"
    first_event = JournalBegan(process.journal.name, role=process.role.value, bootstrap=process.bootstrap)
    with Journal(path, process.journal.zero_ns, first_event) as journal:
        Shifts(process, bench, client_of(bench.client), journal, control).run()


if __name__ == "__main__":
    main()
