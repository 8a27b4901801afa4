"""`fencepost reproducer`, and a replay of the folder that it makes."""

import dataclasses
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from fencepost.cli import run_command_line
from fencepost.commands import replay
from harness.common.errors import UnreadableInput, UsageError
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
    run: ReproducedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reproducer", str(run.folder)]) == 0
    output = capsys.readouterr()
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataclasses.replace(run.verdict, valid=valid, anomalies={}).save(run.folder / "verdict.json")
    assert run_command_line(["reproducer", str(run.folder), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (run.folder / "reproducer").exists()


def test_a_run_without_a_verdict_and_a_folder_that_exists_are_refused(
    run: ReproducedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reproducer", str(run.folder), "--out", str(run.project)]) == 2
    assert "exists: name a new folder with --out" in capsys.readouterr().err
    (run.folder / "verdict.json").unlink()
    assert run_command_line(["reproducer", str(run.folder)]) == 2
    assert "has no verdict yet" in capsys.readouterr().err


def test_replay_repeats_the_cleaned_folder(
    run: ReproducedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = (run.folder / "run.toml").read_text()
    started: list[tuple[Options, Schedule]] = []

    def started_run(options: Options, *_: object, schedule: Schedule, **__: object) -> None:
        started.append((options, schedule))
        raise UnreadableInput("far enough")

    monkeypatch.setattr(import_module("fencepost.runs.carry_out"), "run", started_run)
    for secret in ("ssl.keystore.password", "log.dir"):
        plan = plan.replace(tomllib.loads(plan)["options"]["broker"][secret], "<redacted>")
    out = tmp_path / "ticket"
    assert run_command_line(["reproducer", str(run.folder), "--out", str(out)]) == 0
    with pytest.raises(UsageError, match="must be given again"):
        replay.command.main([str(out)], standalone_mode=False)
    sets = [
        *("--set", "broker.ssl.keystore.password=x", "--set", "broker.log.dir=y"),
        *("--set", "bootstrap=test:9092", "--set", "client-config=mine.properties"),
    ]
    with pytest.raises(UnreadableInput, match="far enough"):
        replay.command.main([str(out), *sets], standalone_mode=False)
    ((options, schedule),) = started
    assert (options.seed, options.nemesis, options.bootstrap) == (7, ("kill-broker",), "test:9092")
    assert options.pipeline == str(out / "pipeline.toml")
    (planned,) = schedule.planned_faults
    assert (planned.fault, str(planned.target), planned.start_s, planned.hold_s) == (
        "kill-broker",
        "leader:x/0",
        1.0,
        2.0,
    )


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
