"""A program that writes only the last value of a key: its last records are checked, and none is joined to an input."""

import sys
from pathlib import Path

import pytest

import fencepost
from fencepost import Result

PROGRAMS = Path(__file__).parent / "programs"
FILE = """
name = "totals"
[[stage]]
name = "total"
reads = ["payments"]
writes = ["totals"]
group = "totals"
command = [PYTHON, "PROGRAMS/totals.py", "--brokers", "{bootstrap}", OPTIONS]
transactional_id = "totals-1"
instances = 1
[expect]
fold = "PROGRAMS/expect.py:total"
correlate = "key"
final = ["totals"]
[inputs.payments]
make = "PROGRAMS/expect.py:payment"
"""


def run(folder: Path, options: str, nemesis: str) -> Result:
    text = FILE.replace("PYTHON", f"'{sys.executable}'").replace("OPTIONS", options)
    (folder / "pipeline.toml").write_text(text.replace("PROGRAMS", str(PROGRAMS)))
    return fencepost.run(
        pipeline=str(folder / "pipeline.toml"),
        nemesis=nemesis,
        time_limit=25,
        seed=1,
        store=str(folder / "store"),
    )


@pytest.mark.parametrize(("options", "nemesis"), [('"--restore"', "kill-instance"), ("", "none")])
def test_last_totals_that_include_all_inputs_are_valid(options: str, nemesis: str, tmp_path: Path) -> None:
    result = run(tmp_path, options, nemesis)
    result.assert_valid()
    assert "aggregate-mismatch" in result.verdict["checked"]


def test_totals_that_restart_at_zero_after_a_kill_are_caught(tmp_path: Path) -> None:
    result = run(tmp_path, "", "kill-instance")
    assert result.valid is False, result.explain()
    (anomaly,) = result.anomalies
    assert anomaly == "aggregate-mismatch"
    first = result.verdict["anomalies"][anomaly]["sentences"][0]
    assert "the last one is the record at totals/" in first and "was expected after" in first


def test_offsets_outside_the_transaction_are_caught_despite_right_totals(tmp_path: Path) -> None:
    result = run(tmp_path, '"--offsets-after"', "none")
    assert result.valid is False, result.explain()
    (anomaly,) = result.anomalies
    assert anomaly == "offset-output-mismatch"
    assert (
        "outside any transaction and went past input payments/"
        in result.verdict["anomalies"][anomaly]["sentences"][0]
    )
