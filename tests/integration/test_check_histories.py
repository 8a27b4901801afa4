"""`fencepost check` of external histories, as a user calls it."""

import gzip
import json
import subprocess
import sys
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
    """All files in one call."""
    place = tmp_path_factory.mktemp("histories")
    circle = random_history(Random(1), 30, {"G1c"})
    skipping = random_history(Random(2), 30, {"poll-skip"})
    right = random_history(Random(3), 30, set())
    (place / "circle.jsonl").write_text(to_jsonl(circle))
    (place / "circle.edn").write_text(to_edn(circle))
    (place / "skipping.jsonl").write_text(to_jsonl(skipping))
    (place / "right.edn.gz").write_bytes(gzip.compress(to_edn(right).encode()))
    (place / "cut.jsonl.gz").write_bytes(gzip.compress(to_jsonl(right).encode())[:-40])
    (place / "wrong.jsonl").write_text(to_jsonl(right) + '{"process": 1, "type": "maybe"}\n')
    (place / "empty.jsonl").write_text("")
    files = [*sorted(place.iterdir()), place / "gone.edn"]
    status, verdicts = check("--allow", "poll-skip", *files)
    assert [verdict["history"] for verdict in verdicts] == list(map(str, files))
    return place, status, {Path(verdict["history"]).name: verdict for verdict in verdicts}


def test_each_history_has_its_line_and_the_worst_decides(answers: Any) -> None:
    _, status, told = answers
    assert {name: verdict["valid"] for name, verdict in told.items()} == {
        "circle.edn": False,
        "circle.jsonl": False,
        "cut.jsonl.gz": "unknown",
        "empty.jsonl": "unknown",
        "gone.edn": "unknown",
        "right.edn.gz": True,
        "skipping.jsonl": True,
        "wrong.jsonl": "unknown",
    }
    assert status == 2
    assert "cut.jsonl.gz" in told["cut.jsonl.gz"]["error"] or "gzip" in told["cut.jsonl.gz"]["error"]
    assert "there is no" in told["gone.edn"]["error"]
    assert told["wrong.jsonl"]["error"].startswith("line ")
    assert "holds no event" in told["empty.jsonl"]["error"]


def test_both_forms_say_the_same(answers: Any) -> None:
    _, _, told = answers
    as_json, as_edn = told["circle.jsonl"], told["circle.edn"]
    assert as_json["anomalies"] == as_edn["anomalies"]
    assert as_json["stats"] == as_edn["stats"]


def test_a_cycle_is_told_step_by_step(answers: Any) -> None:
    _, _, told = answers
    (example,) = told["circle.jsonl"]["anomalies"]["G1c"]["examples"]
    assert example["operations"] >= 2
    ends = [(step["from"]["op"], step["to"]["op"]) for step in example["cycle"]]
    assert [after for _, after in ends] == [before for before, _ in ends[1:] + ends[:1]]  # it closes
    assert all(step["kind"] == "wr" and step["from"]["outcome"] == "ok" for step in example["cycle"])
    assert all(" read " in words and " wrote" in words for words in example["steps"])


def test_what_was_permitted_is_listed_and_says_by_whom(answers: Any) -> None:
    _, _, told = answers
    skip = told["skipping.jsonl"]["anomalies"]["poll-skip"]
    assert skip["allowed"] and skip["allowed_by"] == "--allow"


def test_a_name_that_is_no_anomaly_is_wrong_usage(tmp_path: Path) -> None:
    assert check("--allow", "poll-skipp", tmp_path / "x.jsonl") == (2, [])
