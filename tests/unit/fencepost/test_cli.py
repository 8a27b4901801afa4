"""The command line as a user meets it: each case is a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli import COMMANDS


def fencepost(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "fencepost", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command):
    done = fencepost(command, "--help")
    assert done.returncode == 0
    assert re.search(rf"Example:\n +fencepost {command}", done.stdout)


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from fencepost import cli; cli.run_command_line(['run', '--help']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyspark", "confluent_kafka", "pyarrow", "rich"} & set(done.stdout.split())


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
def test_each_kind_can_be_listed(kind, name):
    done = fencepost("list", kind)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^{name} +\S.+", done.stdout, re.MULTILINE)


def test_what_is_named_alone_is_listed():
    assert fencepost("list", "defects", "no-rewind").stdout.startswith("no-rewind ")
    assert len(fencepost("list", "nemeses", "partition", "kill-broker").stdout.splitlines()) == 2


@pytest.mark.parametrize(
    "kind",
    ["workloads", "nemeses", "checkers", "clusters", "anomalies", "reasons", "defects", "kafka", "clients"],
)
def test_every_list_is_a_list_of_objects_too(kind):
    told = json.loads(fencepost("list", kind, "--json").stdout)
    assert told and all({"name", "summary"} <= one.keys() for one in told)


def test_a_defect_says_which_workloads_have_it_and_what_it_may_cause():
    (told,) = json.loads(fencepost("list", "defects", "dead-letter-outside", "--json").stdout)
    assert told["workloads"] == ["orders"]
    assert told["anomalies"] == ["offset-output-mismatch", "reprocessed-input"]
    (told,) = json.loads(fencepost("list", "workloads", "idempotent", "--json").stdout)
    assert (told["guarantee"], told["defects"]) == (
        "at-least-once",
        ["acks-one", "no-idempotence"],
    )


def test_each_anomaly_that_is_named_is_specified():
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


def test_the_doctor_says_what_is_here():
    done = fencepost("doctor")
    assert re.search(r"^(ok|later|no) +Kafka", done.stdout, re.MULTILINE)
    assert done.returncode == (4 if re.search(r"^no ", done.stdout, re.MULTILINE) else 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
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
        (["list"], "missing argument"),
        (
            ["list", "anomalies", "lost-inputs"],
            'there is no anomaly "lost-inputs"; did you mean "lost-input"?',
        ),
        (["check"], "missing argument 'STORE|HISTORY...'"),
        (["check", "store", "--spark-conf", "x"], "spark-conf must be NAME=VALUE"),
        (["replay", "absent"], "there is no absent"),
        (["report", "absent"], "there is no absent"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(arguments, words, tmp_path: Path):
    done = fencepost(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("fencepost: ")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_each_history_that_cannot_be_read_has_its_line_without_spark(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    given = ("absent", "history.jsonl", "empty")
    done = fencepost("check", "--json", *given, "--master", "spark://127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert [re.search(r'"history": "([^"]*)", "valid": "unknown", "error"', line)[1] for line in lines] == [
        "absent",
        "history.jsonl",
        "empty",
    ]


def test_a_spark_master_that_does_not_answer_is_told_before_anything_starts(tmp_path: Path):
    done = fencepost("run", "--master", "spark://127.0.0.1:1", "--store", str(tmp_path / "store"))
    assert done.returncode == 4
    assert "no Spark master answers at spark://127.0.0.1:1 (" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "store").exists()


def test_without_arguments_the_help_is_shown_and_2():
    done = fencepost()
    assert done.returncode == 2
    assert "Usage: fencepost" in done.stderr


def test_a_folder_named_like_a_room_is_not_taken_for_ours(tmp_path: Path):
    for room in ("workloads", "harness", "click_shadow"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise SystemExit('a stranger was loaded')\n")
    for path in (str(tmp_path), ""):
        done = fencepost("list", "workloads", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("shop")


def test_a_mistake_of_ours_is_one_sentence_and_4_with_its_traceback_in_a_file(tmp_path: Path):
    code = "import sys; from fencepost.cli import report_bug; sys.excepthook = report_bug; {}['key']"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    [file] = tmp_path.glob("fencepost-bug-*.txt")
    assert str(file) in done.stderr
    assert "KeyError" in file.read_text()


def test_a_standard_output_that_is_closed_is_told_at_once():
    command = [sys.executable, "-P", "-m", "fencepost", "list", "defects"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 4
    assert (
        done.stderr == "fencepost: standard output is closed: the program that reads the output has ended\n"
    )


@pytest.mark.parametrize("buffering", [[], ["-u"]])
@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        (["list", "defects"], 0, ""),  # `fencepost list defects | head -1`
        (
            ["check", "no-such"],
            4,
            "fencepost: a pipe broke: the program that reads the output has ended",
        ),
    ],
)
def test_a_reader_that_has_gone_is_no_traceback(asked, status, told, buffering):
    """What only shows something has shown enough; no verdict may be lost."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-P", *buffering, "-m", "fencepost", *asked]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    os.close(write)
    assert done.returncode == status
    assert done.stderr.strip().splitlines()[-1:] == ([told] if told else [])


def test_where_nobody_reads_an_error_either_the_status_is_no_verdict(tmp_path):
    """A status of 1 would say `invalid`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-P", "-m", "fencepost", "check", "no-such"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, stdout=write, stderr=write, check=False, env=environment)
    os.close(write)
    assert done.returncode == 4
    assert list(tmp_path.iterdir()) == []  # no traceback of a bug
