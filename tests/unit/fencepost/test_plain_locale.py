"""The command gives the same verdict if the user's locale is not UTF-8, and no character ends it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.commands.output import print_history
from harness.common.errors import UnreadableInput
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport, Validity, Verdict

pytestmark = pytest.mark.processes

PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
REPORT = """
import sys
from pathlib import Path
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Verdict
from reports.html.page import write_report
folder = Path(sys.argv[1])
assert RunMetadata.load(folder / "metadata.json").faults[0].evidence == "process 7 \\u2026 \\xe9"
write_report(folder, Verdict.load(folder / "verdict.json"), 0.0)
"""


def run_python(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-P", *arguments], env={**os.environ, **PLAIN}, capture_output=True, check=False
    )


def test_a_report_is_written_in_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    fault = FaultReport("kill-broker", "broker 2", 1.0, 9.0, True, "process 7 … é", "broker 2 was killed")
    RunMetadata(faults=[fault]).save(tmp_path / "metadata.json")
    Verdict("größe", "n", 1, Validity.VALID.json, "all … is well").save(tmp_path / "verdict.json")
    ended = run_python("-c", REPORT, str(tmp_path))
    assert ended.returncode == 0, ended.stderr.decode()
    assert "all … is well" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_character_that_the_terminal_lacks_does_not_end_the_command(tmp_path: Path, as_json: bool) -> None:
    path = tmp_path / "größe…"
    ended = run_python("-m", "fencepost", "check", str(path), *["--json"] * as_json)
    assert ended.returncode == 2, ended.stderr.decode()
    line = ended.stdout.decode("ascii")
    assert "there is no" in line
    if as_json:
        assert os.fsencode(json.loads(line)["history"]) == os.fsencode(path)


def test_a_path_that_is_not_utf_8_makes_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    history = os.fsdecode(b"night-\xe9.jsonl")
    error = UnreadableInput(f"there is no {history}")
    for result in (error, Verdict(history, "n", 1, Validity.VALID.json, "all is well")):
        print_history(history, result, as_json=True, stored=False)
        line = capsys.readouterr().out.encode("utf-8")  # raises if it is not UTF-8
        assert json.loads(line)["history"] == history
