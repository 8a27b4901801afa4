"""The fixture `fencepost_cluster` in a real pytest, with a command that answers at once."""

import pytest

from fencepost.shared_server import cluster_words
from fencepost.sharing import SharedCluster, command_on_own_cluster
from harness.settings.options import Options
from tests.support.plugin_project import Project

pytestmark = pytest.mark.processes

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


SHARED_AND_OTHER = """
def test_right(fencepost, fencepost_cluster):
    fencepost().assert_valid()

def test_wrong(fencepost, fencepost_cluster):
    fencepost(defect="no-rewind", cluster=fencepost_cluster).assert_valid()

def test_own_cluster(fencepost, fencepost_cluster):
    fencepost(cluster="local").assert_valid()

def test_alone(fencepost):
    fencepost().assert_valid()
"""


def test_tests_that_request_the_fixture_share_one_cluster(project: Project) -> None:
    project.run(SHARED_AND_OTHER, "--fencepost-seed=7").assert_outcomes(passed=3, failed=1)
    assert project.clusters == ["ended"]
    right, wrong, elsewhere, alone = project.requested_options
    for options in (right, wrong):
        assert (options["cluster"], options["bootstrap"]) == ("external", "127.0.0.1:4711")
    assert elsewhere["cluster"] == "local" and "bootstrap" not in elsewhere
    assert "cluster" not in alone


def test_a_session_without_the_fixture_starts_no_cluster(project: Project) -> None:
    project.run("def test_shop(fencepost):\n    fencepost()\n").assert_outcomes(passed=1)
    assert project.clusters == []


def test_a_failed_run_is_repeated_on_a_new_cluster(project: Project) -> None:
    result = project.run(SHARED_AND_OTHER, "--fencepost-seed=7")
    result.stdout.fnmatch_lines(["E       repeat: fencepost run --seed 7 --rate 50 --kafka 3.9.2"])
    assert "cluster.py" not in result.stdout.str()


def test_the_options_of_the_cluster_come_from_a_fixture(project: Project) -> None:
    code = "@pytest.fixture(scope='session')\ndef fencepost_cluster_options():\n    return {'brokers': 9}\n\n"
    result = project.run(code + "def test_shop(fencepost, fencepost_cluster):\n    fencepost()\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["fencepost_cluster: brokers must be 1 to 7"])
    assert "Traceback" not in result.stdout.str() and "cluster.py" not in result.stdout.str()


def test_a_missing_command_is_named(project: Project) -> None:
    project.command = "/no/such/fencepost"
    result = project.run("def test_shop(fencepost_cluster):\n    pass\n")
    result.stdout.fnmatch_lines(["fencepost_cluster: `/no/such/fencepost` cannot be started: *"])


PARAMETRIZED = """
@pytest.mark.parametrize("n", range(4))
def test_shop(fencepost, fencepost_cluster, n):
    fencepost().assert_valid()
"""


def test_workers_of_xdist_share_the_cluster(project: Project) -> None:
    project.run(PARAMETRIZED, "-n2", "--dist=each").assert_outcomes(passed=8)
    assert project.clusters == ["ended"]
    assert {options["bootstrap"] for options in project.requested_options} == {"127.0.0.1:4711"}


def test_workers_of_xdist_report_why_the_cluster_did_not_start(project: Project) -> None:
    code = "@pytest.fixture(scope='session')\ndef fencepost_cluster_options():\n    return {'brokers': 9}\n"
    result = project.run(code + PARAMETRIZED, "-n2", "--dist=each")
    result.assert_outcomes(errors=8)
    result.stdout.fnmatch_lines(["fencepost_cluster: *brokers must be 1 to 7"])


def test_the_repeat_command_names_the_settings_of_the_cluster_and_its_faults() -> None:
    shared = SharedCluster("a:1", "local", "4.2.1", ["--brokers", "5", "--set", "broker.x=1"])
    repeat = command_on_own_cluster(
        "fencepost run --seed 7 --set bootstrap=a:1", shared, ["kill-worker", "pause-worker"]
    )
    assert repeat == (
        "fencepost run --seed 7 --nemesis kill-worker,pause-worker --brokers 5 --set broker.x=1 --kafka 4.2.1"
    )


def test_the_repeat_command_has_no_options_of_an_external_cluster() -> None:
    command = (
        "fencepost run --cluster external --set bootstrap=a:1 --set permits=workers --set prefix=team-x "
        "--set client-config=c.properties --seed 5"
    )
    repeat = command_on_own_cluster(command, SharedCluster("a:1", "local", "4.3.1"))
    assert repeat == "fencepost run --seed 5 --kafka 4.3.1"


def test_the_settings_of_a_shared_cluster_have_no_secrets() -> None:
    settings = {"log.segment.bytes": "1048576", "ssl.keystore.password": "hush-4711"}
    words = cluster_words(Options(brokers=5, kafka="4.2.1", java="bundled", settings=settings))
    assert cluster_words(Options(cluster="docker")) == ["--cluster", "docker"]
    assert words[:2] == ["--brokers", "5"] and "broker.log.segment.bytes=1048576" in words
    assert not any("hush" in word or "4.2.1" in word or "bundled" in word for word in words)


def test_the_repeat_command_keeps_all_other_options() -> None:
    command = (
        "fencepost run --set bootstrap=a:1,b:2 --cluster external --set broker.x=1 --nemesis kill-worker"
    )
    shared = SharedCluster("a:1", "docker", "4.3.1", ["--cluster", "docker"])
    assert command_on_own_cluster(command, shared) == (
        "fencepost run --set broker.x=1 --nemesis kill-worker --cluster docker --kafka 4.3.1"
    )


def test_the_spark_and_the_cluster_of_a_session_share_a_server(project: Project) -> None:
    project.run(SHARED_AND_OTHER)
    assert project.servers == 1
