"""Mutants that survive all histories: the unit tests of the checkers see more than is found in a history.

The tests run in a process of their own, with a copy of the room that has the mutant.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutants.mutate import Mutant

ROOT = Path(__file__).parent.parent.parent
TESTS = (
    "test_by_key",
    "test_graph",
    "test_parts",
    "test_judge",
    "test_judge_told",
    "test_history_folders",
    "test_history_files",
)
"""Of tests/unit/checkers; the cases are no news."""
LIMIT_S = 600


def fate_in_tests(mutant: Mutant) -> str:
    """survived, or which test failed first."""
    with tempfile.TemporaryDirectory(prefix="fencepost-mutant-") as folder:
        room = Path(folder) / "checkers"
        shutil.copytree(ROOT / "checkers", room, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / mutant.file).write_text(mutant.source)
        tests = [str(ROOT / "tests" / "unit" / "checkers" / f"{name}.py") for name in TESTS]
        command = [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "pythonpath=",
        ]
        path = os.pathsep.join([folder, str(ROOT)])
        try:
            done = subprocess.run(
                [*command, *tests], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                text=True, check=False, timeout=LIMIT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "killed: the tests do not end"
    if done.returncode == 0:
        return "survived"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed is None:
        raise RuntimeError(f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    return f"killed: {failed[1].rpartition('/')[2]} fails"
