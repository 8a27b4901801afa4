"""Run pytest, and fail if it and all its processes use more processor time than their budget.

python -P tools/processor_budget.py NAME SECONDS PYTEST_ARGUMENTS...

Processor time depends less on other work of the machine than wall time, which is only printed, with the load. The
durations of all tests are kept in build/durations/NAME.xml. If the budget is exceeded, the ten slowest tests are
printed: make them faster.
"""

import ctypes
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 10
BECOME_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl(2)."""


def main(name: str, budget_s: float, arguments: list[str]) -> int:
    """Run pytest. Return its exit status, or 1 if only the budget is exceeded."""
    durations = Path("build/durations") / f"{name}.xml"
    began_s = time.monotonic()
    adopt_orphans()
    command = [sys.executable, "-P", "-m", "pytest", f"--junitxml={durations}", *arguments]
    status = wait_for_all(os.spawnv(os.P_NOWAIT, sys.executable, command))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = usage.ru_utime + usage.ru_stime
    wall = f"{time.monotonic() - began_s:,.0f} s of wall time"
    load = f"load {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors"
    print(f"{name}: {used_s:,.0f} of {budget_s:,.0f} s of processor time; {wall}, {load}", flush=True)
    if used_s <= budget_s:
        return status
    print(f"the budget is exceeded; the {SLOWEST} slowest tests:")
    for test_s, test in slowest(durations):
        print(f"  {test_s:6.1f} s  {test}")
    return status or 1


def adopt_orphans() -> None:
    """Become the parent of each process whose own parent ends without waiting for it.

    One is Spark's JVM: the shell that started it is killed with it. Otherwise the time of such a process, and of all
    processes that it has started, would not be counted: more than half of that of all tests.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)


def wait_for_all(pytest_pid: int) -> int:
    """Wait for pytest, and at once for each adopted process that ends. Return the exit status of pytest.

    Some tests wait until an orphan has disappeared. After Ctrl-C, pytest ends by itself.
    """
    ended: dict[int, int] = {}
    while pytest_pid not in ended:
        with suppress(KeyboardInterrupt):
            ended.update([os.wait()])
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    return os.waitstatus_to_exitcode(ended[pytest_pid])


def slowest(durations: Path) -> list[tuple[float, str]]:
    """Return the slowest tests with their seconds, which include their fixtures."""
    cases = ElementTree.parse(durations).iter("testcase")
    tests = [(float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases]
    return sorted(tests, reverse=True)[:SLOWEST]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
