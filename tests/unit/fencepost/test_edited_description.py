"""If the description of a custom pipeline is edited during the run, the run is unknown."""

import time
from pathlib import Path

from fencepost.runs.carry_out import digest_of, report_edit
from harness.runner.processes import RunClock
from harness.runner.run_log import RunLog
from tests.support.fake_run import RecordedProgress
from tests.support.user_pipeline import FUNCTIONS, WITH_OUTPUTS, read_pipeline
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS


def new_run_log() -> RunLog:
    return RunLog(RecordedProgress(), RunClock(time.monotonic_ns(), 0.0))


def test_an_edited_function_is_a_problem(tmp_path: Path) -> None:
    pipeline, run_log = CustomPipeline(read_pipeline(tmp_path, WITH_OUTPUTS, FUNCTIONS)), new_run_log()
    digest = digest_of(pipeline)
    report_edit(pipeline, digest, run_log)
    assert run_log.evidence_problems == []
    (tmp_path / "expect.py").write_text(FUNCTIONS + "# another\n")
    report_edit(pipeline, digest, run_log)
    (problem,) = run_log.evidence_problems
    assert problem.code == "description-changed" and "was changed during the run" in problem.text


def test_a_workload_has_no_description_that_can_be_edited() -> None:
    run_log = new_run_log()
    shop = WORKLOADS["shop"]
    report_edit(shop, digest_of(shop), run_log)
    assert run_log.evidence_problems == []
