import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment.cache import VARIABLE, cache_folder, provide

ASK = """
import sys
from pathlib import Path
from harness.environment.cache import provide

def build(folder):
    (folder / "half").touch()
    print("building", flush=True)
    sys.stdin.readline()
    (folder / "whole").touch()

print("asking", flush=True)
print(provide(Path(sys.argv[1]), "thing", build), flush=True)
"""


def asking(cache: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", ASK, str(cache)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert said(process) == "asking"
    return process


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def fill(folder: Path) -> None:
    (folder / "whole").touch()


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    place = provide(tmp_path, "thing", fill)
    assert provide(tmp_path, "thing", lambda _: pytest.fail("built again")) == place
    assert [file.name for file in place.iterdir()] == ["whole"]


def test_of_two_processes_that_ask_at_once_one_builds_and_both_get_it(tmp_path: Path) -> None:
    with asking(tmp_path) as first:
        assert said(first) == "building"
        with asking(tmp_path) as second:
            first.communicate("go on\n")
            out, _ = second.communicate()  # it gets no line to go on with: it must not build
    assert out.strip() == str(tmp_path / "thing")
    assert (tmp_path / "thing" / "whole").exists()


def test_a_killed_build_leaves_nothing_that_counts_and_the_next_one_removes_it(tmp_path: Path) -> None:
    with asking(tmp_path) as killed:
        assert said(killed) == "building"
        killed.send_signal(signal.SIGKILL)
    assert list((tmp_path / "building").rglob("half"))
    assert not (tmp_path / "thing").exists()
    place = provide(tmp_path, "thing", fill)
    assert [file.name for file in place.iterdir()] == ["whole"]
    assert list((tmp_path / "building").iterdir()) == []


def test_a_build_that_fails_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        raise EnvironmentFailure("no luck")

    with pytest.raises(EnvironmentFailure, match="no luck"):
        provide(tmp_path, "thing", build)
    assert list((tmp_path / "building").iterdir()) == []
    assert provide(tmp_path, "thing", fill).exists()


def test_a_disk_that_is_too_small_is_told_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="MB of disk are needed"):
        provide(tmp_path, "thing", lambda _: pytest.fail("built"), disk_mb=10**9)


def test_a_cache_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=f"name another one in the environment variable {VARIABLE}"):
        provide(tmp_path / "file", "thing", fill)


def test_the_environment_chooses_the_folder_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv(VARIABLE)
    assert cache_folder().name == "fencepost"
