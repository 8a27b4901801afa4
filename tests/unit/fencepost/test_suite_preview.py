"""What `--plan` tells of a suite before it does anything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from fencepost.commands.options import settled
from fencepost.suites import folder, plan
from fencepost.suites.forecast import NO_TIME
from fencepost.suites.plan import Asked, Planned
from fencepost.suites.preview import preview
from harness.errors import ExitStatus
from harness.suite import State, Suite

TEXT = '[suite]\nseed = 5\n[matrix]\nworkload = ["shop", "echo", "orders"]\n'


def test_a_plan_lists_the_runs_and_starts_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.toml"
    file.write_text('[suite]\nseed = 5\n[matrix]\nworkload = ["shop", "echo"]\n')
    told = ["suite", str(file), "--store", str(tmp_path / "store"), "--plan"]
    assert run_command_line(told) == ExitStatus.VALID
    assert "echo librdkafka drawn\n    fencepost run --workload echo --seed" in capfd.readouterr().out
    assert run_command_line([*told, "--json"]) == ExitStatus.VALID
    assert len(json.loads(capfd.readouterr().out)["cells"]) == 2
    assert not (tmp_path / "store").exists()


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    file = tmp_path / "night.toml"
    file.write_text(TEXT)
    return plan.load(file, Asked(settled))


def last_night(planned: Planned, seconds: float, **more: object) -> Suite:
    """An earlier suite, of which all but the first cell were run."""
    cells = [
        replace(cell, state=State.VALID, duration_s=seconds, run="runs/x", started=f"2026-11-2{n}")
        for n, cell in enumerate(planned.suite.cells)
        if n
    ]
    return replace(planned.suite, cells=cells, started="2026-11-20", **more)


def said(planned: Planned, jobs: int = 1, limit_s: float | None = None, past: tuple[Suite, ...] = ()) -> str:
    return "\n".join(preview(planned, past, jobs, limit_s).lines())


def test_without_a_past_a_run_takes_its_time_limit_and_what_a_cluster_needs(planned: Planned) -> None:
    assert "3 runs: about 5 min one at a time; judging comes after them\n" in said(planned)
    assert "3 runs: about 4 min with 2 side by side" in said(planned, jobs=2)


def test_a_run_takes_what_it_took_beside_its_time_limit_before(planned: Planned) -> None:
    before = last_night(planned, 70.0, judging_s=12.0)
    assert "3 runs: about 4 min one at a time; judging comes after them: about 18 s" in said(
        planned, past=(before,)
    )


def test_a_limit_leaves_out_what_was_run_last(planned: Planned) -> None:
    before = last_night(planned, 70.0)
    told = said(planned, limit_s=180.0, past=(before,))
    assert "the limit leaves time for 2 of 3 runs: about 3 min one at a time" in told
    assert f"orders librdkafka drawn: {NO_TIME}" in told and told.count(NO_TIME) == 1
    assert "the limit leaves time for 0 of 3 runs\n" in said(planned, limit_s=30.0)


def test_of_a_suite_that_goes_on_only_what_is_left_takes_time(planned: Planned) -> None:
    first, second, third = planned.suite.cells
    over = [replace(first, state=State.VALID), replace(second, state=State.NOT_JUDGED), third]
    going_on = replace(planned, suite=replace(planned.suite, cells=over))
    told = said(going_on)
    assert "1 run: about 2 min one at a time" in told and "shop librdkafka drawn: valid" in told
    done = replace(
        going_on, suite=replace(planned.suite, cells=[replace(c, state=State.VALID) for c in over])
    )
    assert "all runs are over" in said(done)


def test_the_past_is_that_of_the_store(
    tmp_path: Path, planned: Planned, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    folder.create(store, last_night(planned, 660.0))
    file = str(tmp_path / "night.toml")
    assert (
        run_command_line(["suite", file, "--store", str(store), "--plan", "--jobs", "1"]) == ExitStatus.VALID
    )
    assert "3 runs: about 24 min one at a time" in capfd.readouterr().out
    resumed = ["suite", "--resume", str(store / "night" / "latest"), "--plan"]
    assert run_command_line(resumed) == ExitStatus.VALID
    assert "all runs are over" in capfd.readouterr().out
