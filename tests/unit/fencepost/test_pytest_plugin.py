"""The plugin in a real pytest, with a command that answers at once."""

import sys

import pytest

pytest_plugins = ["pytester"]

STAND_IN = """
import sys
from fencepost import api
api.COMMAND = (sys.executable, "-c", '''
import json, sys
from pathlib import Path
store = Path(sys.argv[-1].removeprefix("store="))
store.mkdir(parents=True)
(store / "report.html").touch()
print(json.dumps({"history": str(store), "valid": False, "summary": "2 inputs were lost"}))
sys.exit(1)
''')
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(STAND_IN)
    pytester.makepyfile("def test_shop(fencepost):\n    fencepost(time_limit=5).assert_valid()\n")
    return pytester


def test_a_failing_verdict_fails_the_test_in_words(project: pytest.Pytester):
    done = project.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["E*AssertionError: invalid: 2 inputs were lost", "*-- fencepost --*", "report: *report.html"]
    )


def test_runs_are_kept_under_the_test_or_where_asked(project: pytest.Pytester):
    done = project.runpytest_subprocess("--basetemp=kept")
    done.stdout.fnmatch_lines(["report: */kept/test_shop0/store/report.html"])
    done = project.runpytest_subprocess("--fencepost-store=nightly")
    done.stdout.fnmatch_lines(["report: nightly/report.html"])


def test_the_plugin_is_there_without_being_asked_for(pytester: pytest.Pytester):
    done = pytester.runpytest_subprocess("--fixtures", "-q")
    done.stdout.fnmatch_lines(["fencepost*"])
    assert sys.executable
