"""A fault, a workload and an anomaly, each as the docs say: one file and one line, in a copy of the house."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")


def blocks(page: str) -> list[str]:
    """The Python in one of the docs."""
    return re.findall(r"```python\n(.*?)```", (HOUSE / "docs" / page).read_text(), re.DOTALL)


def add(line: str, before: str, registry: Path) -> None:
    text = registry.read_text()
    assert text.count(before) == 1
    registry.write_text(text.replace(before, f"{line}{before}"))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with one of each."""
    place = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        shutil.copytree(HOUSE / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    fault, _ = blocks("add-a-fault.md")
    (place / "nemeses" / "pause_first.py").write_text(fault)
    add("from nemeses import pause_first\n", "\n_FILES = (\n", place / "nemeses" / "registry.py")
    add("    pause_first,\n", ")\n\nNEMESES", place / "nemeses" / "registry.py")
    (workload,) = blocks("add-a-workload.md")
    (place / "workloads" / "lengths.py").write_text(workload)
    add(
        "from workloads.lengths import LENGTHS\n",
        "from workloads.model.workload",
        place / "workloads" / "registry.py",
    )
    add("    LENGTHS,\n", ")\n\nWORKLOADS", place / "workloads" / "registry.py")
    anomaly, line = blocks("add-an-anomaly.md")
    (place / "checkers" / "anomalies" / "slow_transaction.py").write_text(anomaly)
    add(line, '    Checker(\n        "send_order"', place / "checkers/registry.py")
    return place


def called(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(house)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=house,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_is_listed_and_has_its_page(house: Path) -> None:
    for kind, name in (
        ("nemeses", "pause-first"),
        ("workloads", "lengths"),
        ("anomalies", "slow-transaction"),
    ):
        assert called(house, "fencepost", "list", kind, name).stdout.strip(), name
    assert not called(house, "checkers.pages", "pages").returncode
    assert "Blind spot" in (house / "pages" / "slow-transaction.md").read_text()
    assert "slow-transaction" in (house / "pages" / "README.md").read_text()


def test_each_is_in_the_verdict_the_report_and_junit_of_a_run(house: Path) -> None:
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
    ran = called(house, "fencepost", *command, "--store", "store")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    folder = house / "store" / "latest"
    verdict = json.loads((folder / "verdict.json").read_text())
    (fault,) = verdict["faults"]
    assert (fault["fault"], fault["acted"], fault["struck"]) == ("pause-first", True, "broker 1 was paused")
    assert "slow-transaction" in verdict["checked"]
    found = verdict["anomalies"]["slow-transaction"]
    assert found["warning"] and re.fullmatch(r"[\d,]+ transactions? (was|were) slow", found["words"])
    assert re.search(r"took [\d.]+ s", found["sentences"][0])
    report = (folder / "report.html").read_text()
    assert found["sentences"][0] in report and "pause-first" in report and "lengths" in report
    cases = {
        (case.get("classname"), case.get("name"))
        for case in ElementTree.parse(folder / "junit.xml").getroot().iter("testcase")
    }
    assert {("lengths.checks", "slow-transaction"), ("lengths.faults", "1 pause-first on broker 1")} <= cases
