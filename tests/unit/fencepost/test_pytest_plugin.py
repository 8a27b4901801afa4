"""The plugin in a real pytest, with a command that answers at once."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost import pytest_plugin
from harness.settings.options import Options
from tests.support.plugin_project import Project

pytestmark = pytest.mark.processes

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


FAILS = "def test_shop(fencepost):\n    fencepost(defect='no-rewind').assert_valid()\n"


def test_a_failing_test_shows_verdict_example_report_and_command(project: Project) -> None:
    result = project.run(FAILS, "--fencepost-seed=7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       fencepost(defect='no-rewind').assert_valid()",
            "E       AssertionError: invalid: 2 inputs were lost",
            "E         lost-input: 2",
            "E           first: input a/0 offset 1 is lost",
            "E       report: *report.html",
            "E       repeat: fencepost run --seed 7",
            "*-- fencepost --*",
            "repeat the test: pytest test_shop.py::test_shop --fencepost-seed 7*",
        ]
    )
    assert "api.py" not in result.stdout.str()


def test_a_command_without_a_verdict_fails_with_its_message(project: Project) -> None:
    result = project.run("def test_shop(fencepost):\n    fencepost(workers='many')\n", "--fencepost-seed=7")
    result.stdout.fnmatch_lines(["E*FencepostFailed: *ended with 2: workers must be a number"])
    result.stdout.fnmatch_lines(["repeat the test: *--fencepost-seed 7*"])
    assert "api.py" not in result.stdout.str()


def test_a_missing_command_is_named(project: Project) -> None:
    project.command = "/no/such/fencepost"
    result = project.run(FAILS)
    result.stdout.fnmatch_lines(["E*FencepostFailed: `/no/such/fencepost` cannot be started: *"])


def test_runs_are_stored_in_the_folder_of_the_test_or_of_the_option(project: Project) -> None:
    project.run(FAILS, "--basetemp=kept").stdout.fnmatch_lines(
        ["report: */kept/test_shop0/store/report.html"]
    )
    root = project.pytester.path
    project.run(FAILS, "--fencepost-store=runs").stdout.fnmatch_lines([f"report: {root}/runs/report.html"])


MOVES = """
def test_shop(fencepost, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fencepost()
"""


def test_the_store_is_relative_to_the_rootdir_if_a_test_changes_its_folder(project: Project) -> None:
    root = project.pytester.path
    project.run(MOVES, "--fencepost-store=runs", "--junitxml=junit.xml").assert_outcomes(passed=1)
    assert [options["store"] for options in project.requested_options] == [str(root / "runs")]
    assert (root / "runs" / "report.html").is_file()
    document = ElementTree.parse(root / "junit.xml")
    (report,) = (p.get("value") for p in document.iter("property") if p.get("name") == "fencepost_report")
    assert report == "runs/report.html"


def test_a_relative_command_is_found_if_a_test_changes_its_folder(project: Project) -> None:
    program = project.pytester.path / "fencepost"
    program.write_text(f'#!/bin/sh\nexec {project.command} "$@"\n')
    program.chmod(0o755)
    project.command = "./fencepost"
    project.run(MOVES).assert_outcomes(passed=1)


def test_a_pipeline_can_import_from_the_folders_of_pytest(project: Project) -> None:
    root = project.pytester.path
    project.pytester.makeini("[pytest]\npythonpath = lib\n")
    folders = f"{root}:{root}/lib"
    code = (
        f"import os\ndef test_it(fencepost):\n    assert os.environ['FENCEPOST_IMPORT_PATH'] == {folders!r}\n"
    )
    project.run(code).assert_outcomes(passed=1)


WITH_MARKERS = """
pytestmark = pytest.mark.fencepost(workload="orders", rate=50)

@pytest.mark.fencepost(rate=100, nemesis="kill-broker")
def test_shop(fencepost):
    fencepost()
    fencepost(nemesis="none", seed=3)
"""


def test_options_come_from_markers_and_the_nearest_one_wins(project: Project) -> None:
    project.run(WITH_MARKERS, "--strict-markers", "--fencepost-seed=7").assert_outcomes(passed=1)
    first, second = project.requested_options
    assert (first["workload"], first["rate"], first["nemesis"], first["seed"]) == (
        *("orders", "100", "kill-broker"),
        "7",
    )
    assert (second["workload"], second["nemesis"], second["seed"]) == ("orders", "none", "3")


def test_a_marker_with_positional_options_is_refused(project: Project) -> None:
    code = "@pytest.mark.fencepost('kill-broker')\ndef test_shop(fencepost):\n    fencepost()\n"
    result = project.run(code)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_shop.py::test_shop: the marker fencepost takes only named options*"])


def test_runs_without_a_seed_have_different_seeds_from_the_session(project: Project) -> None:
    project.run("def test_shop(fencepost):\n    fencepost()\n    fencepost()\n", "--fencepost-seed=7")
    assert [options["seed"] for options in project.requested_options] == ["7", "1007"]


def test_a_failing_test_shows_the_drawn_seed(project: Project) -> None:
    output = project.run(FAILS).stdout.str()
    (seed,) = re.findall(r"repeat the test: pytest \S+ --fencepost-seed (\d+)", output)
    assert project.requested_options[0]["seed"] == seed


NIGHTLY = """
def test_without_options(fencepost):
    fencepost()

@pytest.mark.fencepost(seed=5, time_limit=20, nightly={"time_limit": 90, "seeds": 2})
def test_with_options(fencepost):
    fencepost()

def test_without_fencepost():
    pass
"""


def test_a_nightly_session_is_longer_and_has_more_seeds(project: Project) -> None:
    project.run(NIGHTLY, "--fencepost-seed=7", "--fencepost-nightly").assert_outcomes(passed=3 + 2 + 1)
    seeds_and_limits = [(options["seed"], options["time-limit"]) for options in project.requested_options]
    assert seeds_and_limits == [("7", "180.0"), ("8", "180.0"), ("9", "180.0"), ("5", "90"), ("6", "90")]
    assert all("seeds" not in options and "nightly" not in options for options in project.requested_options)


def test_without_nightly_its_options_have_no_effect(project: Project) -> None:
    project.run(NIGHTLY, "--fencepost-seed=7").assert_outcomes(passed=3)
    assert [(options["seed"], options.get("time-limit")) for options in project.requested_options] == [
        ("7", None),
        ("5", "20"),
    ]


def test_one_repetition_of_a_nightly_test_can_be_repeated(project: Project) -> None:
    project.run(FAILS, "--fencepost-seed=7", "--fencepost-nightly").stdout.fnmatch_lines(
        [
            "repeat the test: pytest 'test_shop.py::test_shop[[]night-2[]]' --fencepost-seed 7 --fencepost-nightly*"
        ]
    )
    result = project.pytester.runpytest(
        *("test_shop.py::test_shop[night-2]", "--fencepost-seed=7", "--fencepost-nightly"),
        f"--fencepost-command={project.command}",
    )
    result.assert_outcomes(failed=1)
    assert project.requested_options[-1]["seed"] == "8"


def test_the_default_time_limit_is_that_of_the_command() -> None:
    assert Options().time_limit_s == pytest_plugin.TIME_LIMIT_S


def test_junit_has_verdict_seed_and_report(project: Project) -> None:
    project.run(FAILS, "--junitxml=junit.xml", "--fencepost-seed=7", "--fencepost-store=runs")
    document = ElementTree.parse(project.pytester.path / "junit.xml")
    output = {entry.get("name"): entry.get("value") for entry in document.iter("property")}
    assert output == {
        "fencepost_verdict": "invalid",
        "fencepost_seed": "7",
        "fencepost_report": str(Path("runs", "report.html")),
    }


def test_the_plugin_is_loaded_automatically(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess("--fixtures", "-q").stdout.fnmatch_lines(["fencepost*"])
    pytester.runpytest_subprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.fencepost(*"])


PARALLEL = """
@pytest.mark.parametrize("n", range(2))
def test_shop(fencepost, n):
    fencepost(defect="no-rewind").assert_valid()
"""


def test_workers_of_xdist_share_a_server_and_the_seed(project: Project) -> None:
    result = project.run(PARALLEL, "-n2", "--dist=each")
    result.assert_outcomes(failed=4)
    seeds = {options["seed"] for options in project.requested_options}
    assert len(seeds) == 1
    result.stdout.fnmatch_lines([f"repeat the test: pytest *--fencepost-seed {seeds.pop()} *"])
    assert project.servers == 1


@pytest.mark.parametrize("arguments", [(), ("-n1",)])
def test_a_session_without_fencepost_starts_no_server(arguments: tuple[str, ...], project: Project) -> None:
    project.run("def test_nothing():\n    pass\n", *arguments).assert_outcomes(passed=1)
    assert project.servers == 0
