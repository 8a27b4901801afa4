import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment.cache import VARIABLE, cache_folder, provide

PROVIDE_SCRIPT = """
import sys
from pathlib import Path
from harness.environment.cache import provide

def build(folder):
    (folder / "incomplete").touch()
    print("building", flush=True)
    sys.stdin.readline()
    (folder / "complete").touch()

print("started", flush=True)
print(provide(Path(sys.argv[1]), "thing", build), flush=True)
"""


def start_provide(cache: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", PROVIDE_SCRIPT, str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert next_line(process) == "started"
    return process


def next_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def fill(folder: Path) -> None:
    (folder / "complete").touch()


def test_an_entry_that_exists_is_not_built_again(tmp_path: Path) -> None:
    entry = provide(tmp_path, "thing", fill)
    assert provide(tmp_path, "thing", lambda _: pytest.fail("built again")) == entry
    assert [file.name for file in entry.iterdir()] == ["complete"]


@pytest.mark.processes
def test_only_one_of_two_concurrent_processes_builds_the_entry(tmp_path: Path) -> None:
    with start_provide(tmp_path) as first:
        assert next_line(first) == "building"
        with start_provide(tmp_path) as second:
            first.communicate("go on\n")
            out, _ = second.communicate()  # it gets no line, so it would hang in a build
    assert out.strip() == str(tmp_path / "thing")
    assert (tmp_path / "thing" / "complete").exists()


@pytest.mark.processes
def test_a_killed_build_leaves_no_entry_and_the_next_build_removes_its_files(tmp_path: Path) -> None:
    with start_provide(tmp_path) as killed:
        assert next_line(killed) == "building"
        killed.send_signal(signal.SIGKILL)
    assert list((tmp_path / "building").rglob("incomplete"))
    assert not (tmp_path / "thing").exists()
    entry = provide(tmp_path, "thing", fill)
    assert [file.name for file in entry.iterdir()] == ["complete"]
    assert list((tmp_path / "building").iterdir()) == []


def test_a_failed_build_leaves_no_files_and_raises_its_error(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "incomplete").touch()
        raise EnvironmentFailure("the build failed")

    with pytest.raises(EnvironmentFailure, match="the build failed"):
        provide(tmp_path, "thing", build)
    assert list((tmp_path / "building").iterdir()) == []
    assert provide(tmp_path, "thing", fill).exists()


def test_a_disk_that_is_too_small_is_an_error_before_the_build(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="MB of disk are needed"):
        provide(tmp_path, "thing", lambda _: pytest.fail("built"), disk_mb=10**9)


def test_the_error_for_a_cache_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=f"name another one in the environment variable {VARIABLE}"):
        provide(tmp_path / "file", "thing", fill)


def test_an_environment_variable_sets_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv(VARIABLE)
    assert cache_folder().name == "fencepost"
