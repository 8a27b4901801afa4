"""What `--plan` tells of a suite before it does anything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from fencepost.commands.options import settle
from fencepost.suites import plan, record
from fencepost.suites.forecast import NO_TIME, preview
from fencepost.suites.plan import SuitePlan, SuiteRequest
from harness.common.errors import ExitStatus
from harness.results.suite import CellState, Suite

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
def planned(tmp_path: Path) -> SuitePlan:
    file = tmp_path / "night.toml"
    file.write_text(TEXT)
    return plan.load(file, SuiteRequest(settle))


def last_night(planned: SuitePlan, seconds: float, **more: object) -> Suite:
    """An earlier suite, of which all but the first cell were run."""
    cells = [
        replace(cell, state=CellState.VALID, duration_s=seconds, run="runs/x", started=f"2026-11-2{n}")
        for n, cell in enumerate(planned.suite.cells)
        if n
    ]
    return replace(planned.suite, cells=cells, started="2026-11-20", **more)


def said(
    planned: SuitePlan,
    jobs: int = 1,
    limit_s: float | None = None,
    past: tuple[Suite, ...] = (),
    room: int = 9,
) -> str:
    return "\n".join(preview(planned, past, jobs, room, limit_s).lines())


def test_without_a_past_a_run_takes_its_time_limit_and_what_a_cluster_needs(planned: SuitePlan) -> None:
    assert "3 runs: about 5 min one at a time; then they are checked\n" in said(planned)
    assert "3 runs: about 4 min with 2 side by side" in said(planned, jobs=2)


def test_a_run_takes_what_it_took_beside_its_time_limit_before(planned: SuitePlan) -> None:
    before = last_night(planned, 70.0, check_s=12.0)
    assert "3 runs: about 4 min one at a time; then they are checked: about 18 s" in said(
        planned, past=(before,)
    )


def test_a_limit_leaves_out_what_was_run_last(planned: SuitePlan) -> None:
    before = last_night(planned, 70.0)
    told = said(planned, limit_s=180.0, past=(before,))
    assert "the limit leaves time for 2 of 3 runs: about 3 min one at a time" in told
    assert f"orders librdkafka drawn: {NO_TIME}" in told and told.count(NO_TIME) == 1
    assert "the limit leaves time for 0 of 3 runs\n" in said(planned, limit_s=30.0)


def test_of_a_suite_that_goes_on_only_what_is_left_takes_time(planned: SuitePlan) -> None:
    first, second, third = planned.suite.cells
    over = [replace(first, state=CellState.VALID), replace(second, state=CellState.NOT_CHECKED), third]
    going_on = replace(planned, suite=replace(planned.suite, cells=over))
    told = said(going_on)
    assert "1 run: about 2 min one at a time" in told and "shop librdkafka drawn: valid" in told
    done = replace(
        going_on, suite=replace(planned.suite, cells=[replace(c, state=CellState.VALID) for c in over])
    )
    assert "all runs have ended" in said(done)


def test_the_past_is_that_of_the_store(
    tmp_path: Path, planned: SuitePlan, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    record.create(store, last_night(planned, 660.0))
    file = str(tmp_path / "night.toml")
    assert (
        run_command_line(["suite", file, "--store", str(store), "--plan", "--jobs", "1"]) == ExitStatus.VALID
    )
    assert "3 runs: about 24 min one at a time" in capfd.readouterr().out
    resumed = ["suite", "--resume", str(store / "night" / "latest"), "--plan"]
    assert run_command_line(resumed) == ExitStatus.VALID
    assert "all runs have ended" in capfd.readouterr().out


def test_no_more_run_side_by_side_than_memory_permits_or_there_are(planned: SuitePlan) -> None:
    cramped = said(planned, jobs=64, room=2)
    assert "3 runs: about 4 min with 2 side by side, as many as memory permits;" in cramped
    assert "3 runs: about 2 min with 3 side by side;" in said(planned, jobs=64)
    assert "3 runs: about 5 min one at a time, as many as memory permits;" in said(planned, jobs=2, room=0)


def test_a_run_that_failed_says_nothing_of_how_long_it_takes(planned: SuitePlan) -> None:
    good = last_night(planned, 90.0, check_s=12.0)
    for seconds in (3.0, 1260.0):
        cells = [replace(cell, state=CellState.FAILED, duration_s=seconds) for cell in good.cells]
        failed = replace(good, cells=cells, started="2026-11-21", check_s=9.0)
        assert said(planned, past=(failed, good)) == said(planned, past=(good,))


def test_a_suite_that_goes_on_has_learned_from_its_own_runs(planned: SuitePlan) -> None:
    first, *others = planned.suite.cells
    over = replace(first, state=CellState.VALID, duration_s=900.0)
    going_on = replace(planned, suite=replace(planned.suite, cells=[over, *others]))
    assert "2 runs: about 30 min one at a time" in said(going_on)


def test_what_is_over_and_not_judged_is_still_to_be_judged(planned: SuitePlan) -> None:
    over = [replace(cell, state=CellState.NOT_CHECKED) for cell in planned.suite.cells]
    told = said(replace(planned, suite=replace(planned.suite, cells=over)))
    assert "all runs have ended; then they are checked\n" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [("check_s", "x"), ("check_s", -90), ("took_s", True), ("started", 5), ("sets", "x"), ("spark", [])],
)
def test_an_earlier_suite_that_is_none_is_left_out(
    key: str, value: object, planned: SuitePlan, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = record.create(tmp_path / "store", last_night(planned, 660.0))
    place = made.folder / "suite.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {key: value}))
    told = [
        "suite",
        str(tmp_path / "night.toml"),
        "--store",
        str(tmp_path / "store"),
        "--plan",
        "--jobs",
        "1",
    ]
    assert run_command_line(told) == ExitStatus.VALID
    assert "3 runs: about 5 min one at a time" in capfd.readouterr().out


@pytest.mark.parametrize(
    "cell", [{"duration_s": "12"}, {"duration_s": -1}, {"options": {"time-limit": "abc"}}, {"started": 5}]
)
def test_a_cell_that_is_none_makes_its_suite_none(cell: dict[str, object], planned: SuitePlan) -> None:
    body = json.loads(json.dumps(planned.suite.as_json()))
    body["cells"][0] |= cell
    with pytest.raises(TypeError):
        Suite.from_json(body)
