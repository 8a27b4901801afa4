"""The fixture `fencepost_cluster` in a real pytest, with a command that answers at once."""

import pytest

from fencepost.shared_server import cluster_words
from fencepost.sharing.cluster import SharedCluster, command_on_own_cluster
from harness.settings.options import Options
from tests.support.plugin_project import Project

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


BOTH = """
def test_right(fencepost, fencepost_cluster):
    fencepost().assert_valid()

def test_wrong(fencepost, fencepost_cluster):
    fencepost(defect="no-rewind", cluster=fencepost_cluster).assert_valid()

def test_elsewhere(fencepost, fencepost_cluster):
    fencepost(cluster="local").assert_valid()

def test_alone(fencepost):
    fencepost().assert_valid()
"""


def test_the_tests_that_ask_for_it_share_one_cluster(project: Project) -> None:
    project.run(BOTH, "--fencepost-seed=7").assert_outcomes(passed=3, failed=1)
    assert project.clusters == ["ended"]
    right, wrong, elsewhere, alone = project.asked
    for asked in (right, wrong):
        assert (asked["cluster"], asked["bootstrap"]) == ("external", "127.0.0.1:4711")
    assert elsewhere["cluster"] == "local" and "bootstrap" not in elsewhere
    assert "cluster" not in alone


def test_a_session_without_it_starts_no_cluster(project: Project) -> None:
    project.run("def test_shop(fencepost):\n    fencepost()\n").assert_outcomes(passed=1)
    assert project.clusters == []


def test_a_run_that_failed_there_is_repeated_by_a_cluster_of_its_own(project: Project) -> None:
    done = project.run(BOTH, "--fencepost-seed=7")
    done.stdout.fnmatch_lines(["E       repeat: fencepost run --seed 7 --rate 50 --kafka 3.9.2"])
    assert "cluster.py" not in done.stdout.str()


def test_its_options_are_those_of_a_fixture(project: Project) -> None:
    code = "@pytest.fixture(scope='session')\ndef fencepost_cluster_options():\n    return {'brokers': 9}\n\n"
    done = project.run(code + "def test_shop(fencepost, fencepost_cluster):\n    fencepost()\n")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["fencepost_cluster: brokers must be 1 to 7"])
    assert "Traceback" not in done.stdout.str() and "cluster.py" not in done.stdout.str()


def test_a_command_that_is_not_there_is_named(project: Project) -> None:
    project.command = "/no/such/fencepost"
    done = project.run("def test_shop(fencepost_cluster):\n    pass\n")
    done.stdout.fnmatch_lines(["fencepost_cluster: `/no/such/fencepost` cannot be started: *"])


EACH = """
@pytest.mark.parametrize("n", range(4))
def test_shop(fencepost, fencepost_cluster, n):
    fencepost().assert_valid()
"""


def test_the_workers_of_xdist_share_it(project: Project) -> None:
    project.run(EACH, "-n2", "--dist=each").assert_outcomes(passed=8)
    assert project.clusters == ["ended"]
    assert {asked["bootstrap"] for asked in project.asked} == {"127.0.0.1:4711"}


def test_the_workers_of_xdist_are_told_why_there_is_none(project: Project) -> None:
    code = "@pytest.fixture(scope='session')\ndef fencepost_cluster_options():\n    return {'brokers': 9}\n"
    done = project.run(code + EACH, "-n2", "--dist=each")
    done.assert_outcomes(errors=8)
    done.stdout.fnmatch_lines(["fencepost_cluster: *brokers must be 1 to 7"])


def test_a_command_for_a_cluster_of_its_own_says_what_the_shared_one_was_and_what_struck() -> None:
    there = SharedCluster("a:1", "local", "4.2.1", ["--brokers", "5", "--set", "broker.x=1"])
    told = command_on_own_cluster(
        "fencepost run --seed 7 --set bootstrap=a:1", there, ["kill-worker", "pause-worker"]
    )
    assert told == (
        "fencepost run --seed 7 --nemesis kill-worker,pause-worker --brokers 5 --set broker.x=1 --kafka 4.2.1"
    )


def test_a_command_for_a_cluster_of_its_own_has_nothing_that_only_a_guest_is_given() -> None:
    told = (
        "fencepost run --cluster external --set bootstrap=a:1 --set permits=workers --set prefix=team-x "
        "--set client-config=c.properties --seed 5"
    )
    own = command_on_own_cluster(told, SharedCluster("a:1", "local", "4.3.1"))
    assert own == "fencepost run --seed 5 --kafka 4.3.1"


def test_what_describes_a_sessions_cluster_has_no_secrets() -> None:
    settings = {"log.segment.bytes": "1048576", "ssl.keystore.password": "hush-4711"}
    told = cluster_words(Options(brokers=5, kafka="4.2.1", java="bundled", settings=settings))
    assert cluster_words(Options(cluster="docker")) == ["--cluster", "docker"]
    assert told[:2] == ["--brokers", "5"] and "broker.log.segment.bytes=1048576" in told
    assert not any("hush" in word or "4.2.1" in word or "bundled" in word for word in told)


def test_a_command_for_a_cluster_of_its_own_keeps_all_else() -> None:
    told = "fencepost run --set bootstrap=a:1,b:2 --cluster external --set broker.x=1 --nemesis kill-worker"
    there = SharedCluster("a:1", "docker", "4.3.1", ["--cluster", "docker"])
    assert command_on_own_cluster(told, there) == (
        "fencepost run --set broker.x=1 --nemesis kill-worker --cluster docker --kafka 4.3.1"
    )


def test_the_spark_and_the_cluster_of_a_session_have_one_server(project: Project) -> None:
    project.run(BOTH)
    assert project.servers == 1
