"""Planted defects: a suite is good only while they are caught."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from fencepost.commands.options import settled
from fencepost.suites import plan
from fencepost.suites.failures import read
from fencepost.suites.outcome import judged
from fencepost.suites.plan import SuiteRequest, resume
from harness.errors import EnvironmentFailure, ExitStatus, UnreadableInput, UsageError
from harness.suite import Cell, State, Suite
from harness.verdict import Found, Validity, Verdict
from tests.support.suites import cell, suite

HOUSE = Path(__file__).resolve().parents[3]
TODAY = date(2026, 11, 24)
TABLE = {"workload": "shop", "anomaly": ["lost-input", "reprocessed-input"], "why": "no rewind"}
LISTED = read([], [TABLE])
SHOP = cell("shop", state=State.NOT_JUDGED)


def verdict(valid: Validity = Validity.INVALID, **anomalies: Found) -> Verdict:
    found = {name.replace("_", "-"): one for name, one in anomalies.items()}
    return Verdict("h", "n", 1, valid, "because", anomalies=found)


def entered(told: Verdict, one: Cell = SHOP) -> Cell:
    return judged(one, told, LISTED, TODAY)


def test_a_planted_defect_that_is_found_is_caught() -> None:
    caught = entered(verdict(lost_input=Found(3, [])))
    assert (caught.state, caught.expected, caught.known) == (State.CAUGHT, "no rewind", "")
    assert caught.anomalies == {"lost-input": 3}
    assert caught.state.exit_status == ExitStatus.VALID and caught.state.good


def test_what_follows_from_an_expected_anomaly_is_caught_with_it() -> None:
    follows = Found(1, [], because="lost-input")
    assert entered(verdict(lost_input=Found(3, []), G1c=follows)).state is State.CAUGHT


def test_a_planted_defect_that_is_not_found_makes_the_suite_bad() -> None:
    missed = entered(verdict(Validity.VALID))
    assert (missed.state, missed.expected) == (State.MISSED, "no rewind")
    assert "expected lost-input or reprocessed-input" in missed.reason
    assert missed.state.exit_status == ExitStatus.INVALID and missed.state.bad
    assert suite(cell("echo"), missed).exit_status == ExitStatus.INVALID


def test_an_unexpected_anomaly_beside_it_is_not_hidden() -> None:
    more = entered(verdict(lost_input=Found(3, []), G1c=Found(2, [])))
    assert more.state is State.INVALID
    assert "G1c 2" in more.reason and "lost-input" not in more.reason
    assert more.anomalies == {"lost-input": 3, "G1c": 2}


def test_each_planted_defect_has_to_be_found_by_an_anomaly_of_its_own() -> None:
    names = ("duplicate", "lost-input")
    tables = [{"workload": "shop", "anomaly": name, "why": f"plants {name}"} for name in names]
    listed = read([], tables)
    one = judged(SHOP, verdict(lost_input=Found(3, [])), listed, TODAY)
    assert (one.state, one.reason) == (State.MISSED, "the planted defect was not caught: expected duplicate")
    both = verdict(lost_input=Found(3, []), duplicate=Found(1, []))
    assert judged(SHOP, both, listed, TODAY).state is State.CAUGHT


def test_what_a_defect_does_not_cause_is_not_expected_of_it() -> None:
    table = {"defect": "no-rewind", "anomaly": ["zombie-write"], "why": "planted"}
    with pytest.raises(
        UsageError, match="no-rewind does not cause zombie-write; it may cause aggregate-mismatch"
    ):
        read([], [table])


def test_another_anomaly_alone_does_not_count_as_caught() -> None:
    assert entered(verdict(G1c=Found(2, []))).state is State.INVALID


def test_an_invalid_verdict_without_an_anomaly_is_not_caught() -> None:
    assert entered(verdict()).state is State.INVALID


def test_a_run_without_an_answer_stays_without_one() -> None:
    assert entered(verdict(Validity.UNKNOWN)).state is State.UNKNOWN
    assert judged(SHOP, EnvironmentFailure("full"), LISTED, TODAY).state is State.FAILED


def test_another_run_is_not_expected_to_be_invalid() -> None:
    other = cell("echo", state=State.NOT_JUDGED)
    assert entered(verdict(Validity.VALID), other).state is State.VALID
    assert entered(verdict(lost_input=Found(3, [])), other).state is State.INVALID


def test_a_suite_that_lacks_a_key_cannot_be_read(tmp_path: Path) -> None:
    for key in ("expected", "cells"):
        body = suite(cell(state=State.KNOWN)).as_json()
        del (body if key == "expected" else body["cells"][0])["expected"]
        (tmp_path / "suite.json").write_text(json.dumps(body))
        with pytest.raises(UnreadableInput, match="expected"):
            Suite.load(tmp_path)


def test_a_suite_that_goes_on_takes_the_tables_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    planted = '[matrix]\nworkload = "shop"\ndefect = "no-rewind"\n'
    file.write_text(planted)
    began = plan.load(file, SuiteRequest(settled, seed=1)).suite
    file.write_text(f'{planted}[[expected]]\nworkload = "shop"\nanomaly = "lost-input"\nwhy = "planted"\n')
    now = resume(began, file, SuiteRequest(settled))
    assert [one["anomaly"] for one in now.suite.expected] == [["lost-input"]]
    assert now.failures.expected[0].applies_to(replace(began.cells[0], state=State.VALID))


@pytest.mark.parametrize("name", ["smoke", "versions", "containers"])
def test_the_projects_own_planted_defects_have_to_be_caught(name: str) -> None:
    made = plan.load(HOUSE / "suites" / f"{name}.toml", SuiteRequest(settled, seed=1))
    planted = [one for one in made.suite.cells if "defect" in one.options]
    assert planted and not made.failures.known
    for one in made.suite.cells:
        assert any(table.applies_to(one) for table in made.failures.expected) == (one in planted)
