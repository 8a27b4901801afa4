"""The command of a stage: how it is started, and the errors for a command that cannot be started."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from harness.common.errors import UsageError
from harness.processes.specs import CommandLine
from tests.support.specs import process_spec, worker_spec
from tests.support.user_pipeline import read_pipeline
from workloads.custom.command import ExternalProgram, instance_of, require_executable, worker_name
from workloads.custom.description import CustomStage, ProgressSource
from workloads.custom.names import NAMES, placeholder_values

STAGE = CustomStage("bill", ("in",), ("out",), ("./billing",), ready="line:up", ready_within_s=9.0)


@pytest.fixture(autouse=True)
def search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "bin" / "on-the-path")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def executable(file: Path, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_every_placeholder_has_a_value(tmp_path: Path) -> None:
    stage = replace(STAGE, command=("./billing", *(f"{name}={{{name}}}" for name in NAMES)))
    task = worker_spec("bill-2", "bill", group="run-7-g", transactional_id="run-7-b-2")
    of_the_run = {"client_config": "c.properties", "kafka_jars": "a.jar:b.jar"}
    placeholders = {**placeholder_values(read_pipeline(tmp_path)), **of_the_run}
    argv = (
        ExternalProgram(stage, tmp_path, tmp_path / "run-7", placeholders)
        .command_line(process_spec(tmp_path, task))
        .argv
    )
    values = dict(word.split("=", 1) for word in argv[1:])
    assert not [name for name, value in values.items() if "{" in value]
    assert (values["group"], values["transactional_id"]) == ("run-7-g", "run-7-b-2")


def command_line_of(
    folder: Path, stage: CustomStage, worker: str = "bill-2", incarnation: int = 0
) -> CommandLine:
    spec = process_spec(folder, worker_spec(worker, "bill"), f"{worker}.{incarnation}")
    return ExternalProgram(stage, folder, folder / "run-7").command_line(spec)


def test_the_progress_of_a_stage_is_asked_by_a_command_or_by_a_query(tmp_path: Path) -> None:
    command = ProgressSource(("./positions", "{bootstrap}", "{data}", "{topic:in}"), within_s=7.0)
    stage = replace(STAGE, progress=command, env={"LEVEL": "warn"})
    program = ExternalProgram(stage, tmp_path, tmp_path / "run-7", {"topic:in": "run-7-in"})
    asked = program.progress_command()
    line = asked.command_line("broker:9092")
    data = tmp_path / "run-7" / "data" / "bill-1"
    assert line.argv == [str(tmp_path / "./positions"), "broker:9092", str(data), "run-7-in"]
    assert (line.cwd, line.env["LEVEL"], asked.within_s) == (tmp_path, "warn", 7.0)
    assert asked.words == "`./positions {bootstrap} {data} {topic:in}`"
    for database, address in (
        ("app.db", str(tmp_path / "app.db")),
        ("postgresql://u:pw@h/d", "postgresql://u:pw@h/d"),
    ):
        query = ProgressSource(sql="SELECT '{topic:in}'", database=database)
        line = replace(program, stage=replace(stage, progress=query)).progress_command().command_line("b:1")
        assert line.env == {"FENCEPOST_DATABASE": address, "FENCEPOST_SQL": "SELECT 'run-7-in'"}
        assert "pw" not in " ".join(line.argv)


def test_a_progress_command_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    stage = replace(STAGE, command=("on-the-path",), progress=ProgressSource(("./positions",)))
    with pytest.raises(
        UsageError, match=r"the \[stage.progress\] command of stage bill, .*/positions, does not exist"
    ):
        require_executable(stage, tmp_path)
    executable(tmp_path / "positions")
    require_executable(stage, tmp_path)


def test_placeholders_are_replaced_in_command_and_environment(tmp_path: Path) -> None:
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
    command_line = command_line_of(tmp_path, stage)
    data = tmp_path / "run-7" / "data" / "bill-2"
    assert list(command_line.argv) == [
        str(tmp_path / "billing"),
        "--brokers=127.0.0.1:1",
        "2/run-7",
        str(data),
        '{"json": {x}}',
        "{other}",
    ]
    assert command_line.env == {"ID": "billing-2", "PLAIN": "1", "PYTHONPATH": ""}
    assert (command_line.cwd, command_line.rules, command_line.pass_fds) == (tmp_path / ".", STAGE.rules, ())


def test_an_instance_has_the_same_data_folder_after_a_restart(tmp_path: Path) -> None:
    stage = replace(STAGE, command=("./billing", "{data}"))
    first = Path(command_line_of(tmp_path, stage).argv[1])
    (first / "state").write_text("old state")
    again, other = (
        Path(command_line_of(tmp_path, stage, worker, 1).argv[1]) for worker in ("bill-2", "bill-3")
    )
    assert (again / "state").read_text() == "old state"
    assert other.is_dir() and other != first


def test_a_path_is_relative_to_the_working_folder_and_a_name_is_on_path(tmp_path: Path) -> None:
    program = executable(tmp_path / "src" / "tools" / "billing")
    for word, executable_file in (
        ("./tools/billing", program),
        ("tools/billing", program),
        (str(program), program),
        ("on-the-path", tmp_path / "bin" / "on-the-path"),
    ):
        stage = replace(STAGE, command=(word,), cwd="src")
        command_line = command_line_of(tmp_path, stage)
        assert (Path(command_line.argv[0]), command_line.cwd) == (executable_file, tmp_path / "src")
        require_executable(stage, tmp_path)


@pytest.mark.parametrize("word", ["./billing", "billing"])
def test_a_command_that_does_not_exist_is_refused(word: str, tmp_path: Path) -> None:
    if word == "billing":
        executable(tmp_path / "billing")  # in the folder of the file, which is not on the PATH
    with pytest.raises(
        UsageError, match=r"the command of stage bill, .*billing, does not exist and is not on the PATH"
    ):
        require_executable(replace(STAGE, command=(word,)), tmp_path)


def test_the_error_for_a_command_that_is_not_executable_says_chmod(tmp_path: Path) -> None:
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
def test_a_script_that_does_not_exist_is_refused(
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
def test_an_argument_that_may_be_no_script_is_accepted(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    require_executable(replace(STAGE, command=command), tmp_path)


def test_a_working_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the working folder of stage bill, .*/src, does not exist"):
        require_executable(replace(STAGE, cwd="src"), tmp_path)


def test_the_number_of_an_instance_is_the_end_of_its_name() -> None:
    assert worker_name("bill-eu", 12) == "bill-eu-12"
    assert instance_of("bill-eu-12") == "12"


def test_programs_do_not_get_the_folder_of_fencepost_in_pythonpath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_folder = Path(workloads.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source_folder), "/their/own"]))
    assert command_line_of(tmp_path, STAGE).env["PYTHONPATH"] == "/their/own"
