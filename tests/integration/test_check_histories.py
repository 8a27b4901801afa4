"""`fencepost check` of a stored run and of external histories, as a user calls it. One call checks all of them.

A stored run is judged by its own record: without faults, clusters, and what runs a pipeline.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.hostile import CASES, write, write_many
from fencepost.cli import run_command_line
from fencepost.sharing import SERVER_VARIABLE
from tests.golden.corpus import CORPUS, EXPECTED
from tests.reference.generate import random_history, to_edn, to_jsonl

SIZE = 2_000
MOST_MODULES = 250
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
UNKNOWN_FAULT = "a-fault-of-another-version"
CHECK = """
import json, sys
from fencepost.cli import run_command_line

write = sys.stdout.write

def write_first(text):  # the verdict of the stored run, before histories are read
    global modules
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    modules = sorted(name for name, file in files.items() if file and not file.endswith("__init__.py"))
    sys.stdout.write = write
    return write(text)

sys.stdout.write = write_first
status = int(run_command_line(["check", "--json", *sys.argv[1:]]))
print(json.dumps([status, modules]))
"""


def check(folder: Path, *arguments: object) -> tuple[int, list[str], list[dict[str, Any]]]:
    """Run `fencepost check` in the folder of a user. It starts its own Spark.

    Returns:
        Its exit status, the modules that it has imported before it prints the first verdict, and the verdicts.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHECK, *map(str, arguments)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != SERVER_VARIABLE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    *lines, last = done.stdout.splitlines()
    return *json.loads(last), list(map(json.loads, lines))


@dataclass(frozen=True)
class Answers:
    """The answers of one call for all files."""

    status: int
    modules: list[str]  # what was imported before the first verdict, which is that of the stored run
    run: dict[str, Any]  # the verdict of the stored run
    verdicts: dict[str, dict[str, Any]]  # by the name of the file
    hostile: dict[str, dict[str, Any]]  # the same, for the hostile histories
    readable: dict[str, bool]  # of those, the many small ones


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("histories")
    for room in ("harness", "checkers"):  # a user's folders may have the names of our rooms
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text("raise SystemExit('the wrong room')")
    cycle = random_history(Random(1), 30, {"G1c"})
    skipping = random_history(Random(2), 30, {"poll-skip"})
    correct = random_history(Random(3), 30, set())
    own = folder / "own"
    own.mkdir()
    (own / "cycle.jsonl").write_text(to_jsonl(cycle))
    (own / "cycle.edn").write_text(to_edn(cycle))
    (own / "skipping.jsonl").write_text(to_jsonl(skipping))
    (own / "correct.edn.gz").write_bytes(gzip.compress(to_edn(correct).encode()))
    (own / "cut.jsonl.gz").write_bytes(gzip.compress(to_jsonl(correct).encode())[:-40])
    (own / "wrong.jsonl").write_text(to_jsonl(correct) + '{"process": 1, "type": "maybe"}\n')
    (own / "empty.jsonl").write_text("")
    files = [*sorted(own.iterdir()), own / "gone.edn"]
    hostile = [folder / f"{name}.jsonl" for name in CASES]
    for path, case in zip(hostile, CASES.values(), strict=True):
        write(case, path, SIZE)
    (folder / "many").mkdir()
    many = write_many(folder / "many", 60)
    paths = [folder_with_an_unknown_fault(folder / "run"), *files, *hostile, *many]
    status, modules, verdicts = check(folder, "--allow", "poll-skip", *paths)
    assert [verdict["history"] for verdict in verdicts] == list(map(str, paths))
    by_name = {Path(verdict["history"]).name: verdict for verdict in verdicts}
    return Answers(
        status,
        modules,
        verdicts[0],
        {path.name: by_name[path.name] for path in files},
        {path.name: by_name[path.name] for path in (*hostile, *many)},
        {path.name: is_readable for path, is_readable in many.items()},
    )


def folder_with_an_unknown_fault(run: Path) -> Path:
    """Copy a stored run with its verdict, and give its fault a name that this version does not know."""
    shutil.copytree(CORPUS / "shop-valid" / "run", run)
    # For a run without a verdict, `check` would also write the report.
    shutil.copy(CORPUS / "shop-valid" / EXPECTED / "verdict.json", run)
    for name in ("run.toml", "metadata.json", "journals/nemesis.jsonl"):
        text = (run / name).read_text(encoding="utf-8")
        assert "kill-worker" in text
        (run / name).write_text(text.replace("kill-worker", UNKNOWN_FAULT), encoding="utf-8")
    return run


def test_a_run_with_an_unknown_fault_is_judged_by_few_modules(answers: Answers) -> None:
    assert answers.run["valid"] is True, answers.run
    assert [fault["fault"] for fault in answers.run["faults"]] == [UNKNOWN_FAULT]
    assert answers.run["faults"][0]["liveness"]["bound_s"] > 0
    own = [name for name in answers.modules if name.split(".")[0] in ROOMS]
    assert {"checkers.registry", "checkers.checking.stored_runs"} <= set(own), (
        "another process has checked it"
    )
    assert len(own) < MOST_MODULES, len(own)
    unwanted = ("nemeses", "workloads", "harness.cluster", "harness.runner")
    assert not [name for name in own if name.startswith(unwanted)]


def test_each_history_has_its_verdict_and_the_worst_status_counts(answers: Answers) -> None:
    status, verdicts = answers.status, answers.verdicts
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


def test_json_lines_and_edn_give_the_same_findings(answers: Answers) -> None:
    verdicts = answers.verdicts
    as_json, as_edn = verdicts["cycle.jsonl"], verdicts["cycle.edn"]
    assert as_json["anomalies"] == as_edn["anomalies"]
    assert as_json["stats"] == as_edn["stats"]


def test_a_cycle_is_described_step_by_step(answers: Answers) -> None:
    verdicts = answers.verdicts
    (example,) = verdicts["cycle.jsonl"]["anomalies"]["G1c"]["examples"]
    assert example["operations"] >= 2
    ends = [(step["from"]["op"], step["to"]["op"]) for step in example["cycle"]]
    assert [after for _, after in ends] == [before for before, _ in ends[1:] + ends[:1]]  # it closes
    assert all(step["kind"] == "wr" and step["from"]["outcome"] == "ok" for step in example["cycle"])
    assert all(" read " in words and " wrote" in words for words in example["steps"])


def test_an_allowed_anomaly_is_listed_with_the_option_that_allows_it(answers: Answers) -> None:
    verdicts = answers.verdicts
    skip = verdicts["skipping.jsonl"]["anomalies"]["poll-skip"]
    assert skip["allowed"] and skip["allowed_by"] == "--allow"


def test_an_unknown_anomaly_in_allow_is_wrong_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--json", "--allow", "poll-skipp", str(tmp_path / "x.jsonl")]
    assert run_command_line(arguments) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and "did you mean poll-skip?" in printed.err.replace('"', "")


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_hostile_history_has_the_expected_verdict(answers: Answers, name: str) -> None:
    verdict = answers.hostile[f"{name}.jsonl"]
    counts = {anomaly: body["count"] for anomaly, body in verdict["anomalies"].items() if not body["allowed"]}
    assert (verdict["valid"], counts) == (CASES[name].valid, dict(CASES[name].counts))
    assert len(str(verdict)) < 50_000  # a finding does not contain the whole history


def test_a_damaged_history_is_reported_and_does_not_affect_others(answers: Answers) -> None:
    for name, readable in answers.readable.items():
        verdict = answers.hostile[name]
        assert verdict["valid"] == (True if readable else "unknown"), verdict
        assert ("error" in verdict) is not readable, verdict
        assert readable or "line " in verdict["error"], verdict
    assert sum(answers.readable.values()) == 54
