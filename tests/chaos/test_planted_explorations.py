"""Explorations with planted mistakes, under load, and killed: each takes half a minute or longer."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.exploration import explorer as module
from fencepost.exploration.explorer import explore
from fencepost.exploration.space import FILE, CaseVerdict, Exploration, cases_of, scope_of
from harness.common.progress import LineProgress
from harness.common.waiting import wait_for
from harness.protocol.cases import Case
from harness.results.verdict import Validity
from harness.settings.options import Options

DRIVER = Path(__file__).parents[1] / "support" / "planted_driver.py"
RIGHT, WRONG = CaseVerdict.RIGHT, CaseVerdict.WRONG


def planted_driver(folder: Path, mistake: str) -> str:
    """Write `driver.toml` of a client with a mistake. Returns its folder."""
    command = json.dumps([sys.executable, "-P", str(DRIVER), mistake])
    folder.mkdir()
    (folder / "driver.toml").write_text(
        f'name = "{mistake}"\nversion = "1"\ncommand = {command}\n', encoding="utf-8"
    )
    return str(folder)


def explored(store: Path, program: str, names: set[str], **options: Any) -> Exploration:
    """Explore these cases of a program."""

    def some(*arguments: Any, **more: Any) -> Iterator[Case]:
        yield from (case for case in cases_of(*arguments, **more) if case.name in names)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "cases_of", some)
        settings = Options(store=str(store), workers=8, seed=1, **options)
        record, _ = explore(settings, scope_of([program]), LineProgress(io.StringIO()))
    assert record.cases.keys() == names
    return record


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (
            "ignores-the-error-of-a-commit",
            {
                "CC error-instead EndTxn#1 = UNKNOWN_SERVER_ERROR": {"lost-commit"},
                "CC request-lost EndTxn#1": set(),
                "CC error-instead Produce#1 = UNKNOWN_SERVER_ERROR": set(),
            },
        ),
    ],
)
def test_a_client_with_a_mistake_is_wrong_in_its_cases_and_right_in_the_others(
    mistake: str, expected: dict[str, set[str]], tmp_path: Path
) -> None:
    driver = planted_driver(tmp_path / mistake, mistake)
    record = explored(tmp_path / "store", "CC", set(expected), driver=driver)
    for name, anomalies in expected.items():
        case = record.cases[name]
        assert anomalies <= set(case.anomalies) and bool(case.anomalies) is bool(anomalies), (name, case)
        assert case.confirmed is bool(anomalies)
    assert record.validity is Validity.INVALID


def test_a_worker_that_does_not_rewind_is_wrong_where_a_transaction_aborts(tmp_path: Path) -> None:
    aborts, commits = (
        "CC error-instead AddOffsetsToTxn#1 = TRANSACTION_ABORTABLE",
        "CC request-lost AddOffsetsToTxn#1",
    )
    record = explored(tmp_path, "CC", {aborts, commits}, defect="no-rewind")
    assert "lost-input" in record.cases[aborts].anomalies and record.cases[aborts].confirmed
    assert record.cases[commits].verdict is RIGHT


def test_a_client_that_is_wrong_without_a_fault_is_invalid_and_not_explored(tmp_path: Path) -> None:
    driver = planted_driver(tmp_path / "driver", "commits-offsets-outside")
    record = explored(tmp_path / "store", "CC", set(), driver=driver)
    assert record.wrong_without_fault == {"CC": ["offset-output-mismatch"]} and not record.cases
    assert record.validity is Validity.INVALID


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("CC error-instead EndTxn#1 = UNKNOWN_SERVER_ERROR + request-lost InitProducerId#2", False),
        ("CC request-lost TxnOffsetCommit#1", True),
    ],
)
def test_a_pair_of_faults_and_a_member_of_the_group_are_right(
    name: str, members: bool, tmp_path: Path
) -> None:
    options = Options(store=str(tmp_path), workers=4, seed=1)
    scope = scope_of(["CC"], members=members)
    record, _ = explore(options, scope, LineProgress(io.StringIO()), only=name)
    assert record.cases[name].settled in (RIGHT, CaseVerdict.FENCED) and record.cases[name].proof
    assert record.finished and record.validity is Validity.VALID


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep processors busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_right_cases_stay_right_on_a_busy_machine(tmp_path: Path) -> None:
    options = Options(store=str(tmp_path), client="java", workers=16, seed=1)
    scope = scope_of(["CC"], ["hold", "request-lost", "response-lost", "response-late", "disconnect"])
    with busy(2):
        record, _ = explore(options, scope, LineProgress(io.StringIO()))
    assert len(record.cases) > 75
    assert not [name for name, case in record.cases.items() if case.confirmed]


def await_text(process: "subprocess.Popen[bytes]", log: Path, text: str) -> None:
    """Wait until the log of a process has a text, or the process has ended."""
    wait_for(
        lambda: text in log.read_text(encoding="utf-8") or process.poll() is not None,
        f"{text!r} in {log}",
        300,
    )


KILLED_AT = ("recording", "0 of", "tried, about", "tried alone", "cases tried, about")


def test_an_exploration_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-P",
        "-m",
        "fencepost",
        "explore",
        "--programs",
        "CC",
        "--kinds",
        "hold",
        "--json",
    ]
    words += ["--store", str(tmp_path / "store")]
    tried = -1
    for n, moment in enumerate(KILLED_AT):
        log = tmp_path / f"{n}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(words, stderr=stream, stdout=subprocess.PIPE, start_new_session=True)
            await_text(process, log, moment)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        records = list((tmp_path / "store").glob(f"explore/*/{FILE}"))
        now = len(json.loads(records[0].read_text(encoding="utf-8"))["cases"]) if records else 0
        assert now >= max(tried, 0)
        tried = now
    last = subprocess.run(words, capture_output=True, text=True, check=False)
    assert last.returncode == 1, last.stderr
    outcome = json.loads(last.stdout)
    cases = outcome["cases"]
    assert cases["tried"] == cases["all"] == 120
    assert cases["wrong"] - cases["unsteady"] == 5  # a TxnOffsetCommit that is held to the end is unsteady
