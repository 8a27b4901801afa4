"""`fencepost check` judges a stored run by its own record: without faults, clusters, and what runs a pipeline."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.golden.corpus import CORPUS

MOST_MODULES = 250
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
UNKNOWN = "a-fault-of-another-version"
CHECK = """
import json, sys
from fencepost.cli import run_command_line
status = run_command_line(["check", sys.argv[1], "--json"])
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
modules = sorted(name for name, file in files.items() if file and not file.endswith("__init__.py"))
print(json.dumps([int(status), modules]))
"""


def test_a_run_with_an_unknown_fault_is_judged_by_few_modules(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(CORPUS / "shop-valid" / "run", run)
    for name in ("run.toml", "metadata.json", "journals/nemesis.jsonl"):
        text = (run / name).read_text(encoding="utf-8")
        assert "kill-worker" in text
        (run / name).write_text(text.replace("kill-worker", UNKNOWN), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHECK, str(run)], capture_output=True, text=True, timeout=300, check=True
    )
    verdict, outcome = map(json.loads, done.stdout.splitlines())
    status, modules = outcome
    own = [name for name in modules if name.split(".")[0] in ROOMS]
    assert (status, verdict["valid"]) == (0, True), verdict
    assert [fault["fault"] for fault in verdict["faults"]] == [UNKNOWN]
    assert verdict["faults"][0]["liveness"]["bound_s"] > 0
    assert len(own) < MOST_MODULES, len(own)
    assert not [
        name for name in own if name.startswith(("nemeses", "workloads", "harness.cluster", "harness.runner"))
    ]
