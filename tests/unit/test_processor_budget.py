"""A group of tests may not use more processor time than its budget."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

TOOL = Path(__file__).parents[2] / "tools" / "processor_budget.py"
TEST = "def test_a_loop():\n    assert sum(range(1000)) == RESULT\n"
ORPHAN = """
import subprocess, sys
from pathlib import Path
from harness.common.waiting import wait_for

BUSY = "import time\\nwhile time.process_time() < 3: pass"
PARENT = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=2).pid)"

def test_an_orphan():
    orphan = subprocess.run([sys.executable, "-c", PARENT, BUSY], check=True, capture_output=True, text=True).stdout
    wait_for(lambda: not Path("/proc", orphan.strip()).exists(), "the orphan to disappear", 60)
"""


@pytest.mark.parametrize(
    ("budget_s", "result", "status"), [(100, 499500, 0), (0.001, 499500, 1), (100, 0, 1), (0.001, 0, 1)]
)
def test_a_group_passes_if_its_tests_pass_within_the_budget(
    budget_s: float, result: int, status: int, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(TEST.replace("RESULT", str(result)))
    command = [sys.executable, "-P", TOOL, "it", str(budget_s), "-q", "-p", "no:fencepost", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert ("the 10 slowest tests:" in done.stdout) is (budget_s < 1), done.stdout
    assert ("test_it::test_a_loop" in done.stdout) is (budget_s < 1)
    assert (tmp_path / "build" / "durations" / "it.xml").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_a_process_whose_parent_does_not_wait_for_it_is_counted_and_disappears(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(ORPHAN)
    command = [sys.executable, "-P", TOOL, "it", "100", "-q", "-p", "no:fencepost", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    used_s = re.search(r"^it: (\d+) of 100 s", done.stdout, re.MULTILINE)
    assert used_s and int(used_s[1]) >= 3, done.stdout
