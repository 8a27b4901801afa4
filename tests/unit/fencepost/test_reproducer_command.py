"""`fencepost reproducer`, and a replay of the folder that it makes."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from msgspec import structs

from fencepost.cli import run_command_line
from fencepost.commands import replay
from harness.common.documents import parse_toml
from harness.common.errors import UsageError
from harness.results.verdict import Validity
from harness.runner.schedule import Schedule
from harness.settings.options import FIELDS, Options
from reports.reproducer.plan import KEPT_OPTIONS, OTHER_OPTIONS
from tests.support.reproduced_run import CONTENTS, ReproducedRun, reproduced_run
from workloads.custom.pipeline import CustomPipeline


@pytest.fixture
def run(tmp_path: Path) -> ReproducedRun:
    return reproduced_run(tmp_path)


def test_each_option_is_kept_or_left_out_on_purpose() -> None:
    assert sorted((*KEPT_OPTIONS, *OTHER_OPTIONS)) == sorted(FIELDS)


def test_the_command_prints_the_folder_last_and_notes_before(
    run: ReproducedRun, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reproducer", str(run.folder)]) == 0
    output = capfd.readouterr()
    assert output.out == f"{run.folder}/reproducer\n"
    assert "The broker setting `ssl.keystore.password` is left out." in output.err
    assert "#" in (run.folder / "reproducer" / "README.md").read_text()


def test_with_values_and_out_are_used(run: ReproducedRun, tmp_path: Path) -> None:
    out = tmp_path / "ticket"
    assert run_command_line(["reproducer", str(run.folder), "--out", str(out), "--with-values"]) == 0
    assert CONTENTS["value"] in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("valid", "arguments", "message"),
    [
        (Validity.VALID, [], "is valid: there is nothing to reproduce"),
        (Validity.VALID, ["--force"], "is valid: there is nothing to reproduce"),
        (Validity.UNKNOWN, [], "use --force if the reason itself is the bug"),
    ],
)
def test_a_run_that_shows_nothing_is_refused(
    run: ReproducedRun,
    valid: Validity,
    arguments: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    structs.replace(run.verdict, valid=valid.json, anomalies={}).save(run.folder / "verdict.json")
    assert run_command_line(["reproducer", str(run.folder), *arguments]) == 2
    assert message in capfd.readouterr().err
    assert not (run.folder / "reproducer").exists()


def test_a_run_without_a_verdict_and_a_folder_that_exists_are_refused(
    run: ReproducedRun, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reproducer", str(run.folder), "--out", str(run.project)]) == 2
    assert "exists: name a new folder with --out" in capfd.readouterr().err
    (run.folder / "verdict.json").unlink()
    assert run_command_line(["reproducer", str(run.folder)]) == 2
    assert "has no verdict yet" in capfd.readouterr().err


class _Started(Exception):
    """The run would start now."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Options, Schedule]]:
    """Return the options and the schedule of the run that a replay starts. It ends with `_Started`."""
    runs: list[tuple[Options, Schedule]] = []

    def start(options: Options, *_: object, schedule: Schedule, **__: object) -> None:
        runs.append((options, schedule))
        raise _Started

    monkeypatch.setattr(import_module("fencepost.runs.carry_out"), "run", start)
    return runs


def reproducer_with(run: ReproducedRun, out: Path, options: dict[str, Any], left_out: list[str]) -> Path:
    """Return the reproducer of the run with other options."""
    plan = parse_toml((run.folder / "run.toml").read_text())
    kept = {key: value for key, value in plan["options"].items() if key not in left_out}
    (run.folder / "run.toml").write_text(tomli_w.dumps(plan | {"options": kept | options}))
    assert run_command_line(["reproducer", str(run.folder), "--out", str(out)]) == 0
    return out


def test_replay_repeats_the_cleaned_folder(
    run: ReproducedRun, tmp_path: Path, started: list[tuple[Options, Schedule]]
) -> None:
    out = reproducer_with(run, tmp_path / "ticket", {}, ["bootstrap", "client-config"])
    with pytest.raises(UsageError, match="must be given again"):
        replay.command.main([str(out)], standalone_mode=False)
    sets = ["--set", "broker.ssl.keystore.password=x", "--set", "broker.log.dir=y"]
    with pytest.raises(_Started):
        replay.command.main([str(out), *sets], standalone_mode=False)
    ((options, schedule),) = started
    assert (options.seed, options.nemesis, options.settings["log.dir"]) == (7, ("kill-broker",), "y")
    assert options.pipeline == str(out / "pipeline.toml")
    (planned,) = schedule.planned_faults
    assert (planned.fault, str(planned.target), planned.start_s, planned.hold_s) == (
        "kill-broker",
        "leader:x/0",
        1.0,
        2.0,
    )


def test_replay_accepts_the_address_of_another_cluster(
    run: ReproducedRun, tmp_path: Path, started: list[tuple[Options, Schedule]]
) -> None:
    options: dict[str, Any] = {"cluster": "external", "permits": ["workers"], "nemesis": ["none"]}
    out = reproducer_with(run, tmp_path / "ticket", options, ["broker", "rule", "client-config"])
    with pytest.raises(_Started):
        replay.command.main([str(out), "--set", "bootstrap=test:9092"], standalone_mode=False)
    assert [options.bootstrap for options, _ in started] == ["test:9092"]


def test_a_pipeline_with_a_missing_environment_variable_is_refused(
    run: ReproducedRun, tmp_path: Path
) -> None:
    out = tmp_path / "ticket"
    assert run_command_line(["reproducer", str(run.folder), "--out", str(out)]) == 0
    file = out / "pipeline.toml"
    with pytest.raises(
        UsageError, match=r"has <redacted>, which a reproducer has in place of a secret: write"
    ):
        CustomPipeline.load(file)
    file.write_text(file.read_text().replace("<redacted>", "x"))
    assert CustomPipeline.load(file).name == "billing"
