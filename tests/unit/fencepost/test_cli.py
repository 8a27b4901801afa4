"""The command line. What depends on the process itself (pipes, imports, the locale) has a new one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import click
import pytest

from fencepost import registry
from fencepost.cli import COMMANDS, command_group, run_command_line
from fencepost.commands.list import KINDS


def fencepost_process(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "fencepost", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fencepost(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in this process."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run(*arguments: str, cwd: Path | str = ".") -> "subprocess.CompletedProcess[str]":
        with chdir(cwd):
            status = run_command_line(arguments)
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command, fencepost: Command):
    process = fencepost(command, "--help")
    assert process.returncode == 0
    assert re.search(rf"Example:\n +fencepost {command}", process.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_text_has_the_line_of_each_command(name: str):
    command = command_group.get_command(click.Context(command_group), name)
    assert command is not None
    assert command.get_short_help_str(limit=100) == COMMANDS[name]


@pytest.mark.processes
def test_the_list_of_commands_loads_none_of_them():
    code = "import sys; from fencepost import cli; cli.run_command_line(['--help']); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in process.stdout.split() if name.startswith("fencepost.commands")]


@pytest.mark.processes
def test_help_imports_no_large_package():
    code = (
        "import sys; from fencepost import cli; cli.run_command_line(['run', '--help']); print(*sys.modules)"
    )
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyspark", "confluent_kafka", "pyarrow", "rich"} & set(process.stdout.split())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("workloads", "shop"),
        ("nemeses", "pause-worker"),
        ("checkers", "lost_input"),
        ("clusters", "local"),
        ("anomalies", "lost-input"),
        ("reasons", "not-drained"),
        ("defects", "no-rewind"),
        ("clients", "java:3.9.1"),
    ],
)
def test_each_kind_can_be_listed(kind, name, fencepost: Command):
    process = fencepost("list", kind)
    assert process.returncode == 0, process.stderr
    assert re.search(rf"^{name} +\S.+", process.stdout, re.MULTILINE)


def test_list_can_be_limited_to_names(fencepost: Command):
    assert fencepost("list", "defects", "no-rewind").stdout.startswith("no-rewind ")
    lines = fencepost("list", "nemeses", "partition", "kill-broker").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["partition", "kill-broker"]
    assert lines[1].strip() == "needs a cluster on which one can cut links"
    assert lines[2].strip().startswith("proves that bytes that were sent into a link were lost")


def test_a_named_fault_is_listed_with_what_can_follow_its_at_sign(fencepost: Command):
    lines = fencepost("list", "nemeses", "kill-broker", "kill-instance", "error-response").stdout.splitlines()
    aims = [line.split() for line in lines if line.strip().startswith("@")]
    assert [form for form, *_ in aims] == [
        "@ROLE", "@[STAGE:]STATE", "@[STAGE:]STEP", "@[STAGE:]STATE", "@API[:ERROR]"
    ]  # fmt: skip
    assert aims[0][1:3] == ["leader[:TOPIC/PARTITION],", "follower[:TOPIC/PARTITION],"]
    assert aims[0][-2:] == ["majority,", "all"]


def test_a_fault_on_a_named_topic_is_listed_with_the_topic_after_its_at_sign(fencepost: Command):
    lines = fencepost("list", "nemeses", "add-partitions").stdout.splitlines()
    assert [line.split() for line in lines if line.strip().startswith("@")] == [
        ["@TOPIC"], ["@ROLE", "topic[:TOPIC],", "inputs,", "outputs"]
    ]  # fmt: skip
    assert lines[-1].strip() == "only if you name it"


def test_every_fault_says_what_it_proves():
    assert not [nemesis.name for nemesis in registry.nemeses().values() if not nemesis.proves]


def test_list_without_a_kind_prints_the_kinds(fencepost: Command):
    assert [line.split()[0] for line in fencepost("list").stdout.splitlines()] == list(KINDS)


@pytest.mark.parametrize(
    "kind",
    ["workloads", "nemeses", "checkers", "clusters", "anomalies", "reasons", "defects", "kafka", "clients"],
)
def test_every_list_has_a_json_form(kind, fencepost: Command):
    entries = json.loads(fencepost("list", kind, "--json").stdout)
    assert entries and all({"name", "summary"} <= entry.keys() for entry in entries)


def test_the_list_of_defects_has_workloads_and_anomalies(fencepost: Command):
    (entries,) = json.loads(fencepost("list", "defects", "dead-letter-outside", "--json").stdout)
    assert entries["workloads"] == ["orders"]
    assert entries["anomalies"] == ["offset-output-mismatch", "reprocessed-input"]
    (entries,) = json.loads(fencepost("list", "workloads", "idempotent", "--json").stdout)
    assert (entries["guarantee"], entries["defects"]) == (
        "at-least-once",
        ["acks-one", "no-idempotence"],
    )


def test_a_named_anomaly_is_listed_with_its_whole_page(fencepost: Command):
    page = Path(__file__).parents[3] / "docs" / "anomalies" / "lost-input.md"
    lost_input, heading, cycle = fencepost("list", "anomalies", "lost-input", "G1c").stdout.partition("\n# ")
    assert lost_input == page.read_text()
    assert heading and cycle.startswith("`G1c`\n\n**Cycles: ")
    for part in (
        "An edge leads from",
        "## Why it is illegal",
        "## Blind spot",
        "Checked in external histories",
    ):
        assert part in cycle


@pytest.mark.processes
def test_doctor_fails_only_if_something_is_missing():
    process = fencepost_process("doctor")
    assert re.search(r"^(ok|later|no) +Kafka", process.stdout, re.MULTILINE)
    assert process.returncode == (4 if re.search(r"^no ", process.stdout, re.MULTILINE) else 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], 'no command "rnu"; did you mean "run"?'),
        (["run", "--wrokers", "3"], 'no option "--wrokers"; did you mean "--workers"?'),
        (["run", "--java", "bundled"], "--java is not a flag: set it with --set java=VALUE"),
        (["run", "--workers", "many"], "workers must be a whole number from 1 to 16"),
        (["run", "--set", "workrs=3"], 'did you mean "workers"?'),
        (["run", "--rate", "3", "--set", "rate=4"], "rate is set twice"),
        (["run", "--config", "absent.toml"], "absent.toml cannot be read"),
        (["run", "stray"], "unexpected extra argument (stray)"),
        (["list", "defect"], 'did you mean "defects"?'),
        (
            ["list", "anomalies", "lost-inputs"],
            'there is no anomaly "lost-inputs"; did you mean "lost-input"?',
        ),
        (["check"], "missing argument 'STORE|HISTORY...'"),
        (["check", "store", "--spark-conf", "x"], "spark-conf must be NAME=VALUE"),
        (
            ["check", "absent", "gone", "--out", "page.html"],
            "--out is for one external history, and 2 are named",
        ),
        (["check", "absent", "--out", "no/page.html"], "--out no/page.html cannot be written: name a file"),
        (["check", "absent", "--out", ""], "--out with an empty name cannot be written: name a file"),
        (["replay", "absent"], "there is no absent"),
        (["report", "absent"], "there is no absent"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(arguments, message, tmp_path: Path, fencepost: Command):
    process = fencepost(*arguments, cwd=tmp_path)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.startswith("fencepost: ")
    assert process.stderr.count("\n") == 1
    assert not process.stdout


def test_each_unreadable_history_has_a_line_and_no_spark_is_started(tmp_path: Path, fencepost: Command):
    (tmp_path / "history.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    histories = ("absent", "history.jsonl", "empty")
    process = fencepost("check", "--json", *histories, "--master", "spark://127.0.0.1:1", cwd=tmp_path)
    assert process.returncode == 2
    lines = process.stdout.splitlines()
    assert [re.search(r'"history": "([^"]*)", "valid": "unknown", "error"', line)[1] for line in lines] == [
        "absent",
        "history.jsonl",
        "empty",
    ]


def test_the_page_of_a_history_never_overwrites_it_and_is_not_for_a_stored_run(
    tmp_path: Path, fencepost: Command
):
    history = tmp_path / "history.jsonl"
    history.write_text('{"process": 0, "type": "invoke", "f": "poll", "value": [["poll"]]}\n')
    before = history.read_text()
    process = fencepost(
        "check", "history.jsonl", "--out", "../" + tmp_path.name + "/history.jsonl", cwd=tmp_path
    )
    assert (process.returncode, history.read_text()) == (2, before)
    assert "would overwrite the history: name another file" in process.stderr
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text("")
    process = fencepost("check", "run", "--out", "page.html", cwd=tmp_path)
    assert process.returncode == 2
    assert "run is a stored run: `fencepost report` writes its report" in process.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.processes
def test_an_unreachable_spark_master_is_reported_before_the_run_starts(tmp_path: Path):
    process = fencepost_process("run", "--master", "spark://127.0.0.1:1", "--store", str(tmp_path / "store"))
    assert process.returncode == 4
    assert "no Spark master answers at spark://127.0.0.1:1 (" in process.stderr.splitlines()[-1]
    assert not (tmp_path / "store").exists()


def test_without_arguments_help_is_printed_and_the_status_is_2(fencepost: Command):
    process = fencepost()
    assert process.returncode == 2
    assert "Usage: fencepost" in process.stderr


@pytest.mark.processes
def test_a_users_package_with_the_name_of_ours_is_not_imported(tmp_path: Path):
    for room in ("workloads", "harness", "click_shadow"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(
            "raise SystemExit('the package of the user was imported')\n"
        )
    for path in (str(tmp_path), ""):
        process = fencepost_process("list", "workloads", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
        assert process.returncode == 0, process.stderr
        assert process.stdout.startswith("shop")


@pytest.mark.processes
def test_a_bug_is_one_sentence_and_status_4_with_a_traceback_in_a_file(tmp_path: Path):
    code = "import sys; from fencepost.cli import report_bug; sys.excepthook = report_bug; {}['key']"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert process.returncode == 4
    assert "Traceback" not in process.stderr
    [file] = tmp_path.glob("fencepost-bug-*.txt")
    assert str(file) in process.stderr
    assert "KeyError" in file.read_text()


@pytest.mark.processes
def test_a_closed_standard_output_is_reported_at_once():
    command = [sys.executable, "-P", "-m", "fencepost", "list", "defects"]
    process = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert process.returncode == 4
    assert (
        process.stderr
        == "fencepost: standard output is closed: the program that reads the output has ended\n"
    )


@pytest.mark.processes
@pytest.mark.parametrize("buffering", [[], ["-u"]])
@pytest.mark.parametrize(
    ("arguments", "status", "last_line"),
    [
        (["list", "defects"], 0, ""),  # `fencepost list defects | head -1`
        (
            ["check", "no-such"],
            4,
            "fencepost: a pipe broke: the program that reads the output has ended",
        ),
    ],
)
def test_a_broken_pipe_causes_no_traceback(arguments, status, last_line, buffering):
    """For a command that only lists, this is no failure. A command with a verdict fails."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-P", *buffering, "-m", "fencepost", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    os.close(write)
    assert process.returncode == status
    assert process.stderr.strip().splitlines()[-1:] == ([last_line] if last_line else [])


@pytest.mark.processes
def test_if_standard_error_is_broken_too_the_status_is_4(tmp_path):
    """A status of 1 would mean `invalid`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-P", "-m", "fencepost", "check", "no-such"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.run(command, stdout=write, stderr=write, check=False, env=environment)
    os.close(write)
    assert process.returncode == 4
    assert list(tmp_path.iterdir()) == []  # no traceback of a bug
