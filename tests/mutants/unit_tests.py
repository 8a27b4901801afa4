"""Run the unit tests of the checkers on a mutant, in a process of their own."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.mutate import Mutant
from tests.mutants.results import SURVIVED
from tests.mutants.selection import ROOT

TESTS = ROOT / "tests" / "unit" / "checkers"
LIMIT_S = 1800


def fate_in_unit_tests(mutant: Mutant) -> str:
    """Return `survived`, or `killed: ` with the first test that fails.

    Raises:
        RuntimeError: pytest could not run the tests.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-mutant-") as folder:
        shutil.copytree(
            ROOT / "checkers", Path(folder) / "checkers", ignore=shutil.ignore_patterns("__pycache__")
        )
        (Path(folder) / mutant.file).write_text(mutant.source)
        options = ("-x", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=")
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "pytest", *options, *map(str, unit_tests_of(mutant.file))],
                cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(ROOT)])},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "killed: the tests do not end"
    if done.returncode == 0:
        return SURVIVED
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed is None and f"{folder}/{mutant.file}" in done.stdout + done.stderr:
        return "killed: it cannot be imported"
    if failed is None:
        raise RuntimeError(f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    return f"killed: {failed[1].rpartition('/')[2]} fails"


def unit_tests_of(file: str) -> list[Path]:
    """Return all unit tests of the checkers, first those that import the file."""
    module = file.removesuffix(".py").replace("/", ".")
    return sorted(TESTS.glob("test_*.py"), key=lambda path: (module not in path.read_text(), path.name))
