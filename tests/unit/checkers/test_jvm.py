"""Finding Java, and the errors if there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkers.spark.driver import SparkSettings, find_java, java_command
from harness.common.errors import EnvironmentFailure


def _java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_a_folder_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=f"none in {tmp_path}"):
        find_java(tmp_path)


def test_a_missing_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="none on the path"):
        find_java(None)


@pytest.mark.parametrize(("version", "feature"), [("1.8.0_402", 8), ("17.0.15", 17), ("25", 25)])
def test_the_version_is_read_from_its_release(tmp_path: Path, version: str, feature: int) -> None:
    assert find_java(_java(tmp_path / "home", version))[1] == feature


def test_a_java_too_old_for_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="is 11"):
        java_command(SparkSettings(java_home=_java(tmp_path / "home", "11.0.2")), tmp_path)


@pytest.mark.parametrize(("memory", "flag"), [("3g", "-Xmx3g"), ("3GB", "-Xmx3g"), ("3072", "-Xmx3072m")])
def test_the_heap_is_what_the_user_says(memory: str, flag: str, tmp_path: Path) -> None:
    conf = {"spark.driver.memory": memory}
    settings = SparkSettings(java_home=_java(tmp_path / "home", "17.0.1"), conf=conf)
    assert flag in java_command(settings, tmp_path)


LOADS_FIRST = """
import sys
from checkers.spark import session
seen = []
session.start_jvm = lambda *_: None
session._connect = lambda *_: seen.append({"pyspark.sql", "pyspark.errors"} <= sys.modules.keys())
pending = session.start_spark(session.SparkSettings())
assert "pyspark.sql" in sys.modules, "PySpark is not there when begin() returns"
pending._opened.result()
assert seen == [True], "the thread would have imported PySpark"
"""


@pytest.mark.processes
def test_pyspark_is_imported_before_the_thread_that_starts_spark() -> None:
    """Two threads that import it at once get a module that is not complete."""
    run = subprocess.run([sys.executable, "-c", LOADS_FIRST], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
