"""`--plan` prints the runs of a suite and their estimated duration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan, record
from fencepost.suites.plan import SuitePlan, SuiteRequest
from fencepost.suites.run import NO_TIME, preview
from harness.common.documents import decode, encode
from harness.common.errors import ExitStatus
from harness.results.suite import CellState, Suite

TEXT = '[suite]\nseed = 5\n[matrix]\nworkload = ["shop", "echo", "orders"]\n'


def test_plan_lists_the_runs_and_starts_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.toml"
    file.write_text('[suite]\nseed = 5\n[matrix]\nworkload = ["shop", "echo"]\n')
    arguments = ["suite", str(file), "--store", str(tmp_path / "store"), "--plan"]
    assert run_command_line(arguments) == ExitStatus.VALID
    assert "echo librdkafka drawn\n    fencepost run --workload echo --seed" in capfd.readouterr().out
    assert run_command_line([*arguments, "--json"]) == ExitStatus.VALID
    assert len(json.loads(capfd.readouterr().out)["cells"]) == 2
    assert not (tmp_path / "store").exists()


@pytest.fixture
def suite_plan(tmp_path: Path) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(TEXT)
    return plan.load(file, SuiteRequest(settle))


def last_night(suite_plan: SuitePlan, seconds: float, **more: object) -> Suite:
    """An earlier suite, which ran all cells except the first: `orders`, and then `echo`."""
    cells = [
        structs.replace(
            cell, state=CellState.VALID, duration_s=seconds, run="runs/x", started=f"2026-11-2{9 - n}"
        )
        for n, cell in enumerate(suite_plan.suite.cells)
        if n
    ]
    return structs.replace(suite_plan.suite, cells=cells, started="2026-11-20", **more)


def preview_text(
    suite_plan: SuitePlan,
    jobs: int = 1,
    limit_s: float | None = None,
    previous: tuple[Suite, ...] = (),
    memory_jobs: int = 9,
) -> str:
    return "\n".join(preview(suite_plan, previous, jobs, memory_jobs, limit_s).lines())


def test_the_estimate_adds_an_overhead_to_each_time_limit(suite_plan: SuitePlan) -> None:
    assert "3 runs: about 5 min one at a time; then they are checked\n" in preview_text(suite_plan)
    assert "3 runs: about 4 min with 2 side by side" in preview_text(suite_plan, jobs=2)


def test_a_limit_leaves_out_the_cells_that_ran_most_recently(suite_plan: SuitePlan) -> None:
    earlier = last_night(suite_plan, 70.0)
    text = preview_text(suite_plan, limit_s=220.0, previous=(earlier,))
    assert "the limit leaves time for 2 of 3 runs: about 4 min one at a time" in text
    assert f"echo librdkafka drawn: {NO_TIME}" in text and text.count(NO_TIME) == 1
    assert "the limit leaves time for 0 of 3 runs\n" in preview_text(suite_plan, limit_s=30.0)


def test_the_estimate_of_a_resumed_suite_has_only_its_remaining_runs(suite_plan: SuitePlan) -> None:
    first, second, third = suite_plan.suite.cells
    ended_cells = [
        structs.replace(first, state=CellState.VALID),
        structs.replace(second, state=CellState.NOT_CHECKED),
        third,
    ]
    resumed = replace(suite_plan, suite=structs.replace(suite_plan.suite, cells=ended_cells))
    text = preview_text(resumed)
    assert "1 run: about 2 min one at a time" in text and "shop librdkafka drawn: valid" in text
    finished = replace(
        resumed,
        suite=structs.replace(
            suite_plan.suite, cells=[structs.replace(c, state=CellState.VALID) for c in ended_cells]
        ),
    )
    assert "all runs have ended" in preview_text(finished)


def test_a_limit_reads_the_earlier_suites_of_the_store(
    tmp_path: Path, suite_plan: SuitePlan, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    record.create(store, last_night(suite_plan, 660.0))
    command = ["suite", str(tmp_path / "night.toml"), "--store", str(store), "--plan", "--jobs", "1"]
    assert run_command_line([*command, "--limit", "220s"]) == ExitStatus.VALID
    assert f"echo librdkafka drawn: {NO_TIME}" in capfd.readouterr().out
    resumed = ["suite", "--resume", str(store / "night" / "latest"), "--plan"]
    assert run_command_line(resumed) == ExitStatus.VALID
    assert "all runs have ended" in capfd.readouterr().out


def test_memory_and_the_number_of_runs_limit_parallel_runs(suite_plan: SuitePlan) -> None:
    text = preview_text(suite_plan, jobs=64, memory_jobs=2)
    assert "3 runs: about 4 min with 2 side by side, as many as memory permits;" in text
    assert "3 runs: about 2 min with 3 side by side;" in preview_text(suite_plan, jobs=64)
    assert "3 runs: about 5 min one at a time, as many as memory permits;" in preview_text(
        suite_plan, jobs=2, memory_jobs=0
    )


def test_runs_without_a_verdict_are_still_to_be_checked(suite_plan: SuitePlan) -> None:
    ended_cells = [structs.replace(cell, state=CellState.NOT_CHECKED) for cell in suite_plan.suite.cells]
    text = preview_text(replace(suite_plan, suite=structs.replace(suite_plan.suite, cells=ended_cells)))
    assert "all runs have ended; then they are checked\n" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [("check_s", "x"), ("check_s", -90), ("took_s", True), ("started", 5), ("sets", "x"), ("spark", [])],
)
def test_an_invalid_earlier_suite_is_skipped(
    key: str, value: object, suite_plan: SuitePlan, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record_ = record.create(tmp_path / "store", last_night(suite_plan, 660.0))
    file = record_.folder / "suite.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    arguments = [
        "suite",
        str(tmp_path / "night.toml"),
        "--store",
        str(tmp_path / "store"),
        "--plan",
        "--jobs",
        "1",
        "--limit",
        "220s",
    ]
    assert run_command_line(arguments) == ExitStatus.VALID
    assert f"orders librdkafka drawn: {NO_TIME}" in capfd.readouterr().out


@pytest.mark.parametrize(
    "cell", [{"duration_s": "12"}, {"duration_s": -1}, {"options": {"time-limit": "abc"}}, {"started": 5}]
)
def test_an_invalid_cell_makes_its_suite_unreadable(cell: dict[str, object], suite_plan: SuitePlan) -> None:
    body = json.loads(json.dumps(encode(suite_plan.suite)))
    body["cells"][0] |= cell
    with pytest.raises(ValueError, match=r"cells\[0\]"):
        decode(body, Suite)
