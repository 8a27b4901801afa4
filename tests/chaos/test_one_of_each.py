"""The fault, the workload and the anomaly of the docs work: each is a file, and at most one line, in a copy."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page of the docs."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def add(line: str, before: str, registry: Path) -> None:
    text = registry.read_text()
    assert text.count(before) == 1
    registry.write_text(text.replace(before, f"{line}{before}"))


@pytest.fixture(scope="module")
def copied_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code with the fault, the workload and the anomaly of the docs."""
    folder = tmp_path_factory.mktemp("code")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    fault, _ = blocks("add-a-fault.md")
    (folder / "nemeses" / "pause_first.py").write_text(fault)
    (workload,) = blocks("add-a-workload.md")
    (folder / "workloads" / "lengths.py").write_text(workload)
    add(
        "from workloads.lengths import LENGTHS\n",
        "from workloads.model.workload",
        folder / "workloads" / "registry.py",
    )
    add("    LENGTHS,\n", ")\n\nWORKLOADS", folder / "workloads" / "registry.py")
    anomaly, line = blocks("add-an-anomaly.md")
    (folder / "checkers" / "anomalies" / "slow_transaction.py").write_text(anomaly)
    add(line, '    Checker(\n        "send_order"', folder / "checkers/registry.py")
    return folder


def call(copied_code: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copied_code)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=copied_code,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_of_them_is_listed_and_has_its_page(copied_code: Path) -> None:
    for kind, name in (
        ("nemeses", "pause-first"),
        ("workloads", "lengths"),
        ("anomalies", "slow-transaction"),
    ):
        assert call(copied_code, "fencepost", "list", kind, name).stdout.strip(), name
    assert not call(copied_code, "checkers.catalogue", "pages").returncode
    assert "Blind spot" in (copied_code / "pages" / "slow-transaction.md").read_text()
    assert "slow-transaction" in (copied_code / "pages" / "README.md").read_text()


def test_each_of_them_is_in_the_verdict_the_report_and_junit_of_a_run(copied_code: Path) -> None:
    command = (
        "run",
        "--workload",
        "lengths",
        "--nemesis",
        "pause-first",
        "--time-limit",
        "20",
        "--seed",
        "3",
    )
    done = call(copied_code, "fencepost", *command, "--store", "store")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = copied_code / "store" / "latest"
    verdict = json.loads((folder / "verdict.json").read_text())
    (fault,) = verdict["faults"]
    assert (fault["fault"], fault["acted"], fault["struck"]) == ("pause-first", True, "broker 1 was paused")
    assert "slow-transaction" in verdict["checked"]
    findings = verdict["anomalies"]["slow-transaction"]
    assert findings["warning"] and re.fullmatch(r"[\d,]+ transactions? (was|were) slow", findings["words"])
    assert re.search(r"took [\d.]+ s", findings["sentences"][0])
    report = (folder / "report.html").read_text()
    assert findings["sentences"][0] in report and "pause-first" in report and "lengths" in report
    cases = {
        (case.get("classname"), case.get("name"))
        for case in ElementTree.parse(folder / "junit.xml").getroot().iter("testcase")
    }
    assert {("lengths.checks", "slow-transaction"), ("lengths.faults", "1 pause-first on broker 1")} <= cases
