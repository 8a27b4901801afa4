"""Mutants that the tests judge: those that survive all histories, of which the unit tests see more than is
found in a history, and those of files that no history judges.

The tests run in a process of their own, with a copy of the room that has the mutant.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.mutate import Mutant

ROOT = Path(__file__).parent.parent.parent
FOUND_BY = (
    "test_ranking",
    "test_by_key",
    "test_packs",
    "test_cycles",
    "test_graph",
    "test_parts",
    "test_judge",
    "test_judge_told",
    "test_history_folders",
    "test_history_files",
)
"""Of tests/unit/checkers, for what all histories judge as well; the cases are no news."""
WITHOUT_JOURNALS = ("test_without_journals", "test_identity", "test_blind")
TESTS: Mapping[str, tuple[str, ...]] = {
    "stored/blind": WITHOUT_JOURNALS,
    "stored/identity": WITHOUT_JOURNALS,
    "stored/spans": WITHOUT_JOURNALS,
    "judging/silent": WITHOUT_JOURNALS,
    "judging/internal_logs": WITHOUT_JOURNALS,
    "stored/tally": ("test_tally", "test_cases"),
    "stored/partitions": ("test_partition_rows", "test_cases"),
    "stored/runs": ("test_partition_rows", "test_cases"),
    "judging/right_run": ("test_right_run",),
    "stored/raw": ("test_raw", "test_cases", "test_without_journals"),
    "stored/small": ("test_cases",),
    "judging/prefilter": ("test_suspects", "test_judge"),
    "catalogue": ("test_catalogue",),
    "spark/remote": ("test_cluster_of_ones_own",),
    "external/read_files": ("test_history_files", "test_history_folders"),
    "external/consistency": ("test_history_agreement",),
    "external/read_folders": ("test_history_folders", "test_history_agreement"),
    "external/source": ("test_history_files", "test_cluster_of_ones_own"),
    "findings/told": ("test_sentences",),
    "judging/with_history": ("test_with_history",),
    "judging/telling": ("test_sentences", "../reports/test_told"),
    "external/lines": ("../reports/test_told",),
    "external/table": (
        "test_history_folders",
        "test_history_agreement",
        "test_parts",
        "test_judge_told",
        "test_graph",
    ),
    "spark/interrupts": ("test_interrupts", "../../integration/test_spark"),
    "spark/jvm": ("test_jvm", "test_cluster_of_ones_own", "../../integration/test_spark"),
    "pages": ("test_catalogue",),
    "spark/conf": ("test_spark_kept", "test_cluster_of_ones_own", "../../integration/test_spark"),
    "spark/partitions": ("test_spark_kept", "test_right_run"),
    "spark/gather": ("test_spark_kept", "test_cases"),
    "spark/checkpoint": ("test_spark_kept",),
    "spark/errors": ("test_parts",),
    "judging/bisect": ("test_parts",),
    "spark/session": ("test_jvm", "test_cluster_of_ones_own", "../../integration/test_spark"),
    "stored/sources": ("test_judge", "test_cases"),
    "judging/warm_up": ("test_right_run", "test_jvm", "../../integration/test_spark"),
    "judging/python_workers": ("test_judge_told", "../../integration/test_spark"),
}
"""By file of the checkers that no history judges: how histories are read, how Spark is started, and what
is written of the checks. What judges it is these alone.
"""
LIMIT_S = 600


def _nearest_first(file: str) -> list[str]:
    """FOUND_BY; what is named after the file, or its folder, is most likely to fail."""
    rooms = {Path(file).stem, Path(file).parent.name}
    return sorted(FOUND_BY, key=lambda name: name.removeprefix("test_") not in rooms)


def fate_in_tests(mutant: Mutant) -> str:
    """survived, or which test failed first."""
    with tempfile.TemporaryDirectory(prefix="fencepost-mutant-") as folder:
        room = Path(folder) / "checkers"
        shutil.copytree(ROOT / "checkers", room, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / mutant.file).write_text(mutant.source)
        names = TESTS.get(mutant.file.removeprefix("checkers/").removesuffix(".py")) or _nearest_first(
            mutant.file
        )
        tests = [str(ROOT / "tests" / "unit" / "checkers" / f"{name}.py") for name in names]
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
    if failed is None and f"{folder}/{mutant.file}" in done.stdout + done.stderr:
        return "killed: it cannot be imported"
    if failed is None:
        raise RuntimeError(f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    return f"killed: {failed[1].rpartition('/')[2]} fails"
