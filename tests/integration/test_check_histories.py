"""`fencepost check` of external histories, as a user calls it."""

import gzip
import json
import subprocess
import sys
from html import unescape
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.reference.generate import random_history, to_edn, to_jsonl


def check(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fencepost", "check", "--json", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[str, dict[str, Any]]]:
    """The folder of the files, the exit status, and the verdicts by file name, of one call for all files."""
    folder = tmp_path_factory.mktemp("histories")
    cycle = random_history(Random(1), 30, {"G1c"})
    skipping = random_history(Random(2), 30, {"poll-skip"})
    correct = random_history(Random(3), 30, set())
    (folder / "cycle.jsonl").write_text(to_jsonl(cycle))
    (folder / "cycle.edn").write_text(to_edn(cycle))
    (folder / "skipping.jsonl").write_text(to_jsonl(skipping))
    (folder / "correct.edn.gz").write_bytes(gzip.compress(to_edn(correct).encode()))
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(to_jsonl(correct).encode())[:-40])
    (folder / "wrong.jsonl").write_text(to_jsonl(correct) + '{"process": 1, "type": "maybe"}\n')
    (folder / "empty.jsonl").write_text("")
    files = [*sorted(folder.iterdir()), folder / "gone.edn"]
    status, verdicts = check("--allow", "poll-skip", *files)
    assert [verdict["history"] for verdict in verdicts] == list(map(str, files))
    return folder, status, {Path(verdict["history"]).name: verdict for verdict in verdicts}


def test_each_history_has_its_verdict_and_the_worst_status_counts(answers: Any) -> None:
    _, status, verdicts = answers
    assert {name: verdict["valid"] for name, verdict in verdicts.items()} == {
        "cycle.edn": False,
        "cycle.jsonl": False,
        "cut.jsonl.gz": "unknown",
        "empty.jsonl": "unknown",
        "gone.edn": "unknown",
        "correct.edn.gz": True,
        "skipping.jsonl": True,
        "wrong.jsonl": "unknown",
    }
    assert status == 2
    assert "cut.jsonl.gz" in verdicts["cut.jsonl.gz"]["error"] or "gzip" in verdicts["cut.jsonl.gz"]["error"]
    assert "there is no" in verdicts["gone.edn"]["error"]
    assert verdicts["wrong.jsonl"]["error"].startswith("line ")
    assert "has no event" in verdicts["empty.jsonl"]["error"]


def test_json_lines_and_edn_give_the_same_findings(answers: Any) -> None:
    _, _, verdicts = answers
    as_json, as_edn = verdicts["cycle.jsonl"], verdicts["cycle.edn"]
    assert as_json["anomalies"] == as_edn["anomalies"]
    assert as_json["stats"] == as_edn["stats"]


def test_a_cycle_is_described_step_by_step(answers: Any) -> None:
    _, _, verdicts = answers
    (example,) = verdicts["cycle.jsonl"]["anomalies"]["G1c"]["examples"]
    assert example["operations"] >= 2
    ends = [(step["from"]["op"], step["to"]["op"]) for step in example["cycle"]]
    assert [after for _, after in ends] == [before for before, _ in ends[1:] + ends[:1]]  # it closes
    assert all(step["kind"] == "wr" and step["from"]["outcome"] == "ok" for step in example["cycle"])
    assert all(" read " in words and " wrote" in words for words in example["steps"])


def test_an_allowed_anomaly_is_listed_with_the_option_that_allows_it(answers: Any) -> None:
    _, _, verdicts = answers
    skip = verdicts["skipping.jsonl"]["anomalies"]["poll-skip"]
    assert skip["allowed"] and skip["allowed_by"] == "--allow"


def test_an_unknown_anomaly_in_allow_is_wrong_usage(tmp_path: Path) -> None:
    assert check("--allow", "poll-skipp", tmp_path / "x.jsonl") == (2, [])


def test_the_report_of_a_history_is_written_as_a_page(answers: Any, tmp_path: Path) -> None:
    folder, _, _ = answers
    page = tmp_path / "page.html"
    status, (verdict,) = check(folder / "cycle.edn", "--allow", "poll-skip", "--out", page)
    assert status == 1
    html = page.read_text(encoding="utf-8")
    (step, *_) = verdict["anomalies"]["G1c"]["examples"][0]["steps"]
    assert unescape(html).count(step) >= 1
    assert f"fencepost check {folder}/cycle.edn --allow poll-skip --out {page}" in html
