"""A description that is edited while a run goes on makes it unknown."""

import time
from pathlib import Path

from fencepost.runs.carry_out import digest_of, report_edit
from harness.runner.processes import RunClock
from harness.runner.run_log import RunLog
from tests.support.fake_run import Silent
from tests.support.user_pipeline import EXPECTING, FUNCTIONS, described
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS


def log() -> RunLog:
    return RunLog(Silent(), RunClock(time.monotonic_ns(), 0.0))


def test_a_function_that_was_changed_is_told(tmp_path: Path) -> None:
    pipeline, run_log = CustomPipeline(described(tmp_path, EXPECTING, FUNCTIONS)), log()
    digest = digest_of(pipeline)
    report_edit(pipeline, digest, run_log)
    assert run_log.evidence_problems == []
    (tmp_path / "expect.py").write_text(FUNCTIONS + "# another\n")
    report_edit(pipeline, digest, run_log)
    (problem,) = run_log.evidence_problems
    assert problem.code == "description-changed" and "was changed during the run" in problem.text


def test_a_workload_of_ours_has_no_file_to_be_changed() -> None:
    run_log = log()
    shop = WORKLOADS["shop"]
    report_edit(shop, digest_of(shop), run_log)
    assert run_log.evidence_problems == []
