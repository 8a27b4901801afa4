"""The plugin in a real pytest, with a command that answers at once."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost import pytest_plugin
from harness.settings.options import Options
from tests.support.plugin_project import Project

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


FAILS = "def test_shop(fencepost):\n    fencepost(defect='no-rewind').assert_valid()\n"


def test_a_failing_test_tells_verdict_example_report_and_how_to_repeat_it(project: Project) -> None:
    done = project.run(FAILS, "--fencepost-seed=7")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
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
    assert "api.py" not in done.stdout.str()


def test_a_command_without_a_verdict_fails_in_its_own_words(project: Project) -> None:
    done = project.run("def test_shop(fencepost):\n    fencepost(workers='many')\n", "--fencepost-seed=7")
    done.stdout.fnmatch_lines(["E*FencepostFailed: *ended with 2: workers must be a number"])
    done.stdout.fnmatch_lines(["repeat the test: *--fencepost-seed 7*"])
    assert "api.py" not in done.stdout.str()


def test_a_command_that_is_not_there_is_named(project: Project) -> None:
    project.command = "/no/such/fencepost"
    done = project.run(FAILS)
    done.stdout.fnmatch_lines(["E*FencepostFailed: `/no/such/fencepost` cannot be started: *"])


def test_runs_are_kept_under_the_test_or_where_asked(project: Project) -> None:
    project.run(FAILS, "--basetemp=kept").stdout.fnmatch_lines(
        ["report: */kept/test_shop0/store/report.html"]
    )
    project.run(FAILS, "--fencepost-store=runs").stdout.fnmatch_lines(["report: runs/report.html"])


MARKED = """
pytestmark = pytest.mark.fencepost(workload="orders", rate=50)

@pytest.mark.fencepost(rate=100, nemesis="kill-broker")
def test_shop(fencepost):
    fencepost()
    fencepost(nemesis="none", seed=3)
"""


def test_a_marker_has_the_options_of_bare_runs_and_the_nearest_word_wins(project: Project) -> None:
    project.run(MARKED, "--strict-markers", "--fencepost-seed=7").assert_outcomes(passed=1)
    first, second = project.asked
    assert (first["workload"], first["rate"], first["nemesis"], first["seed"]) == (
        *("orders", "100", "kill-broker"),
        "7",
    )
    assert (second["workload"], second["nemesis"], second["seed"]) == ("orders", "none", "3")


def test_a_marker_with_options_without_names_is_refused_in_words(project: Project) -> None:
    code = "@pytest.mark.fencepost('kill-broker')\ndef test_shop(fencepost):\n    fencepost()\n"
    done = project.run(code)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["test_shop.py::test_shop: the marker fencepost takes only named options*"])


def test_runs_without_a_seed_have_the_sessions_each_its_own(project: Project) -> None:
    project.run("def test_shop(fencepost):\n    fencepost()\n    fencepost()\n", "--fencepost-seed=7")
    assert [options["seed"] for options in project.asked] == ["7", "1007"]


def test_a_drawn_seed_is_told_where_a_test_fails_and_repeats_it(project: Project) -> None:
    told = project.run(FAILS).stdout.str()
    (seed,) = re.findall(r"repeat the test: pytest \S+ --fencepost-seed (\d+)", told)
    assert project.asked[0]["seed"] == seed


NIGHT = """
def test_as_it_is(fencepost):
    fencepost()

@pytest.mark.fencepost(seed=5, time_limit=20, nightly={"time_limit": 90, "seeds": 2})
def test_told(fencepost):
    fencepost()

def test_without():
    pass
"""


def test_a_nightly_session_is_longer_and_has_more_seeds(project: Project) -> None:
    project.run(NIGHT, "--fencepost-seed=7", "--fencepost-nightly").assert_outcomes(passed=3 + 2 + 1)
    asked = [(options["seed"], options["time-limit"]) for options in project.asked]
    assert asked == [("7", "180.0"), ("8", "180.0"), ("9", "180.0"), ("5", "90"), ("6", "90")]
    assert all("seeds" not in options and "nightly" not in options for options in project.asked)


def test_by_day_nothing_of_the_night_holds(project: Project) -> None:
    project.run(NIGHT, "--fencepost-seed=7").assert_outcomes(passed=3)
    assert [(options["seed"], options.get("time-limit")) for options in project.asked] == [
        ("7", None),
        ("5", "20"),
    ]


def test_one_night_of_a_test_can_be_repeated(project: Project) -> None:
    project.run(FAILS, "--fencepost-seed=7", "--fencepost-nightly").stdout.fnmatch_lines(
        [
            "repeat the test: pytest 'test_shop.py::test_shop[[]night-2[]]' --fencepost-seed 7 --fencepost-nightly*"
        ]
    )
    done = project.pytester.runpytest(
        *("test_shop.py::test_shop[night-2]", "--fencepost-seed=7", "--fencepost-nightly"),
        f"--fencepost-command={project.command}",
    )
    done.assert_outcomes(failed=1)
    assert project.asked[-1]["seed"] == "8"


def test_the_time_limit_that_a_night_multiplies_is_the_commands() -> None:
    assert Options().time_limit_s == pytest_plugin.TIME_LIMIT_S


def test_junit_has_the_reports_path(project: Project) -> None:
    project.run(FAILS, "--junitxml=junit.xml", "--fencepost-seed=7", "--fencepost-store=runs")
    document = ElementTree.parse(project.pytester.path / "junit.xml")
    told = {one.get("name"): one.get("value") for one in document.iter("property")}
    assert told == {
        "fencepost_verdict": "invalid",
        "fencepost_seed": "7",
        "fencepost_report": str(Path("runs", "report.html")),
    }


def test_the_plugin_is_there_without_being_asked_for(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess("--fixtures", "-q").stdout.fnmatch_lines(["fencepost*"])
    pytester.runpytest_subprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.fencepost(*"])


SIDE_BY_SIDE = """
@pytest.mark.parametrize("n", range(2))
def test_shop(fencepost, n):
    fencepost(defect="no-rewind").assert_valid()
"""


def test_the_workers_of_xdist_share_a_server_and_have_the_sessions_seed(project: Project) -> None:
    done = project.run(SIDE_BY_SIDE, "-n2", "--dist=each")
    done.assert_outcomes(failed=4)
    seeds = {options["seed"] for options in project.asked}
    assert len(seeds) == 1
    done.stdout.fnmatch_lines([f"repeat the test: pytest *--fencepost-seed {seeds.pop()} *"])
    assert project.servers == 1


@pytest.mark.parametrize("words", [(), ("-n1",)])
def test_a_session_without_fencepost_starts_no_server(words: tuple[str, ...], project: Project) -> None:
    project.run("def test_nothing():\n    pass\n", *words).assert_outcomes(passed=1)
    assert project.servers == 0
