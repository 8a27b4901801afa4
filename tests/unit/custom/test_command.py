"""A command is started as it is described, and one that cannot be started is refused before anything is."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from harness.common.errors import UsageError
from harness.processes.program import CommandLine, ProgramRules
from tests.support.specs import process_spec, worker_spec
from tests.support.user_pipeline import described
from workloads.custom.command import ExternalProgram, instance_of, require_executable, worker_name
from workloads.custom.description import CustomStage
from workloads.custom.placeholders import NAMES
from workloads.custom.tagged import placeholder_values

STAGE = CustomStage("bill", ("in",), ("out",), ("./billing",), rules=ProgramRules("up", 9.0))


@pytest.fixture(autouse=True)
def path_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "bin" / "on-the-path")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def executable(file: Path, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_every_placeholder_has_something_to_stand_for(tmp_path: Path) -> None:
    stage = replace(STAGE, command=("./billing", *(f"{name}={{{name}}}" for name in NAMES)))
    task = worker_spec("bill-2", "bill", group="run-7-g", transactional_id="run-7-b-2")
    told = {**placeholder_values(described(tmp_path)), "client_config": "c.properties"}
    argv = (
        ExternalProgram(stage, tmp_path, tmp_path / "run-7", told)
        .command_line(process_spec(tmp_path, task))
        .argv
    )
    values = dict(word.split("=", 1) for word in argv[1:])
    assert not [name for name, value in values.items() if "{" in value]
    assert (values["group"], values["transactional_id"]) == ("run-7-g", "run-7-b-2")


def started_as(folder: Path, stage: CustomStage, worker: str = "bill-2", incarnation: int = 0) -> CommandLine:
    spec = process_spec(folder, worker_spec(worker, "bill"), f"{worker}.{incarnation}")
    return ExternalProgram(stage, folder, folder / "run-7").command_line(spec)


def test_its_placeholders_are_filled_in_wherever_they_stand(tmp_path: Path) -> None:
    stage = replace(
        STAGE,
        command=(
            "./billing",
            "--brokers={bootstrap}",
            "{instance}/{run}",
            "{data}",
            '{"json": {x}}',
            "{other}",
        ),
        env={"ID": "billing-{instance}", "PLAIN": "1"},
    )
    started = started_as(tmp_path, stage)
    data = tmp_path / "run-7" / "data" / "bill-2"
    assert list(started.argv) == [
        str(tmp_path / "billing"),
        "--brokers=127.0.0.1:1",
        "2/run-7",
        str(data),
        '{"json": {x}}',
        "{other}",
    ]
    assert started.env == {"ID": "billing-2", "PLAIN": "1", "PYTHONPATH": ""}
    assert (started.cwd, started.rules, started.pass_fds) == (tmp_path / ".", STAGE.rules, ())


def test_an_instance_keeps_its_folder_when_it_is_started_again(tmp_path: Path) -> None:
    stage = replace(STAGE, command=("./billing", "{data}"))
    first = Path(started_as(tmp_path, stage).argv[1])
    (first / "state").write_text("kept")
    again, other = (Path(started_as(tmp_path, stage, worker, 1).argv[1]) for worker in ("bill-2", "bill-3"))
    assert (again / "state").read_text() == "kept"
    assert other.is_dir() and other != first


def test_a_path_is_relative_to_its_working_folder_and_a_name_is_on_the_path(tmp_path: Path) -> None:
    beside = executable(tmp_path / "src" / "tools" / "billing")
    for word, wanted in (
        ("./tools/billing", beside),
        ("tools/billing", beside),
        (str(beside), beside),
        ("on-the-path", tmp_path / "bin" / "on-the-path"),
    ):
        stage = replace(STAGE, command=(word,), cwd="src")
        started = started_as(tmp_path, stage)
        assert (Path(started.argv[0]), started.cwd) == (wanted, tmp_path / "src")
        require_executable(stage, tmp_path)


@pytest.mark.parametrize("word", ["./billing", "billing"])
def test_a_command_that_is_not_there_is_refused(word: str, tmp_path: Path) -> None:
    if word == "billing":
        executable(tmp_path / "billing")  # beside the file, and a name alone does not mean that
    with pytest.raises(
        UsageError, match=r"the command of stage bill, .*billing, does not exist and is not on the PATH"
    ):
        require_executable(replace(STAGE, command=(word,)), tmp_path)


def test_a_command_that_may_not_be_run_is_refused_with_what_helps(tmp_path: Path) -> None:
    executable(tmp_path / "billing", 0o644)
    with pytest.raises(UsageError, match=r"billing, cannot be run: make it executable \(chmod \+x\)"):
        require_executable(STAGE, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ("python3", "bill.py", "-x"),
        ("/usr/bin/python3.12", "./bill.py"),
        ("node", "bill.mjs"),
        ("java", "-jar", "bill.jar"),
    ],
)
def test_a_script_that_is_not_there_is_refused(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    stage = replace(STAGE, command=command)
    script = next(word for word in command if "bill" in word)
    with pytest.raises(
        UsageError, match=r"the command of stage bill runs .* with the file .*, but .*/bill.* does not exist"
    ):
        require_executable(stage, tmp_path)
    (tmp_path / script).touch()
    require_executable(stage, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ("python3", "-m", "bill"),
        ("python3", "-u", "bill.py"),
        ("python3", "{run}.py"),
        ("java", "-cp", "x", "Bill"),
        ("java", "Bill.java"),
        ("java", "-jar"),
        ("python3",),
        ("python3", "-"),
        ("python3", "folder"),  # with a __main__.py
        ("node", "server"),
        ("node", "."),
        ("bash", "bill.sh"),  # may be on the PATH
        ("./node", "serve.js"),
        ("bin/python", "serve.py"),
        ("./python-billing", "x"),
    ],
)
def test_what_is_perhaps_no_script_is_left_alone(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    require_executable(replace(STAGE, command=command), tmp_path)


def test_a_working_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the working folder of stage bill, .*/src, does not exist"):
        require_executable(replace(STAGE, cwd="src"), tmp_path)


def test_the_name_of_an_instance_gives_its_number_back() -> None:
    assert worker_name("bill-eu", 12) == "bill-eu-12"
    assert instance_of("bill-eu-12") == "12"


def test_our_own_folder_is_no_place_for_a_user_to_import_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = Path(workloads.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(house), "/their/own"]))
    assert started_as(tmp_path, STAGE).env["PYTHONPATH"] == "/their/own"
