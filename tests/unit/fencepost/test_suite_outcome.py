"""What a cell keeps of its run's verdict, so that a morning's reader need not open the report."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from fencepost.suites.failures import ListedFailures, read
from fencepost.suites.outcome import MISSED_REMEDY, ended, with_verdict
from harness.common.errors import UnreadableInput
from harness.results.run_metadata import RunMetadata
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import Validity, Verdict
from reports.console import last_lines
from tests.support import synthetic_store
from tests.support.findings import findings_of
from tests.support.suites import cell, suite
from tests.support.synthetic_store import FAULTS

TODAY = date(2026, 11, 24)
NO_ROOM = "did not fit into 30 s; --time-limit 88 has room for every fault"


def entered(verdict: Verdict, listed: ListedFailures = ListedFailures()) -> Cell:  # noqa: B008
    return with_verdict(cell(state=CellState.NOT_CHECKED), verdict, listed, TODAY)


def test_the_first_example_is_the_one_that_the_console_shows() -> None:
    verdict = synthetic_store.verdict(Validity.INVALID)
    shown = [line for line in last_lines(verdict, Path("s"), "c") if line.startswith("    first: ")]
    assert entered(verdict).first == shown[0].removeprefix("    first: ")


def test_an_anomaly_that_nobody_foresaw_has_the_example() -> None:
    verdict = synthetic_store.verdict(Validity.INVALID)
    cycle = findings_of(1, [{"transactions": 2}], sentences=["a cycle of T1 and T2"])
    verdict = replace(verdict, anomalies={**verdict.anomalies, "G1c": cycle})
    table = {"workload": "shop", "anomaly": "reprocessed-input", "why": "planted"}
    caught = entered(verdict, read([], [table]))
    assert (caught.state, caught.first) == (CellState.INVALID, "a cycle of T1 and T2")


def test_an_unknown_run_has_the_remedy_of_its_first_reason_and_the_codes_of_all() -> None:
    unknown = entered(synthetic_store.verdict(Validity.UNKNOWN))
    assert (unknown.first, unknown.remedy) == ("", "repeat it with another `--seed`")
    assert unknown.codes == ("fault-did-not-act pause-worker", "reader-short")


def test_a_missed_defect_has_a_remedy_and_a_valid_run_has_none() -> None:
    valid = synthetic_store.verdict(Validity.VALID)
    planted = read([], [{"anomaly": "lost-input", "why": "planted"}])
    assert entered(valid, planted).remedy == MISSED_REMEDY
    assert (entered(valid).first, entered(valid).remedy, entered(valid).codes) == ("", "", ())


def test_the_faults_that_acted_are_counted_and_those_that_did_not_are_there() -> None:
    faults = [*FAULTS, FAULTS[0], replace(FAULTS[1], fault="cut-worker", acted=False)]
    left = {"kill-group-coordinator": NO_ROOM, "zombie": "no paused worker came back"}
    told = entered(synthetic_store.verdict(Validity.VALID, faults=faults, not_exercised=left))
    assert told.faults == {
        "cut-worker": 0,
        "kill-broker": 2,
        "kill-group-coordinator": 0,
        "partition": 1,
        "pause-worker": 1,
    }
    assert told.not_exercised == left


def test_a_run_that_is_not_judged_yet_has_the_faults_of_its_facts(tmp_path: Path) -> None:
    (run := tmp_path / "runs" / "001" / "1").mkdir(parents=True)
    RunMetadata(faults=FAULTS, unscheduled={"kill-group-coordinator": NO_ROOM}).save(run / "metadata.json")
    told = ended(cell(), tmp_path, run)
    assert told.faults["kill-broker"] == 1 and told.faults["kill-group-coordinator"] == 0


def test_an_example_of_any_length_is_kept_short_and_on_one_line() -> None:
    hostile = findings_of(1, [{"transactions": 2}], sentences=["\n\x1b" + "k" * 100_000])
    told = entered(replace(synthetic_store.verdict(Validity.INVALID), anomalies={"G1c": hostile}))
    assert told.first.startswith("\\n\\x1bkkk")
    assert len(told.first) < 1_200 and told.first.isprintable()


def test_what_a_cell_keeps_is_read_back(tmp_path: Path) -> None:
    told = entered(synthetic_store.verdict(Validity.UNKNOWN))
    suite(told).save(tmp_path)
    assert Suite.load(tmp_path).cells == [told]


@pytest.mark.parametrize("key", ["faults", "anomalies"])
def test_counts_are_numbers(key: str, tmp_path: Path) -> None:
    body = suite(cell()).as_json()
    body["cells"][0][key] = {"kill-broker": "many"}
    (tmp_path / "suite.json").write_text(json.dumps(body))
    with pytest.raises(UnreadableInput):
        Suite.load(tmp_path)
