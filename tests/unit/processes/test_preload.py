"""The preloaded library: what a process with it sees of the clock and the disk."""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.common.errors import EnvironmentFailure
from harness.environment import preload as library_of
from harness.processes.preload import Preload
from tests.support.needs import skip_or_fail

pytestmark = pytest.mark.processes

CHILD = """
import ctypes, errno, json, os, sys, threading, time
libc = ctypes.CDLL(None)
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def wait(name, is_c11):
    # wait for a condition that nobody signals, until a time of the wall clock, as librdkafka does
    condition, mutex = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    getattr(libc, "cnd_init" if is_c11 else "pthread_cond_init")(condition, None)
    getattr(libc, "mtx_init" if is_c11 else "pthread_mutex_init")(mutex, 0)
    getattr(libc, "mtx_lock" if is_c11 else "pthread_mutex_lock")(mutex)
    at_ns = time.time_ns() + 50_000_000
    getattr(libc, name)(condition, mutex, ctypes.byref(Time(at_ns // 10**9, at_ns % 10**9)))
def answer():
    started = time.monotonic()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    wait("cnd_timedwait", True)
    wait("pthread_cond_timedwait", False)
    waited_s = time.monotonic() - started
    errors = []
    for folder in sys.argv[1:]:
        with open(os.path.join(folder, "file"), "wb", buffering=0) as file:
            for call in (lambda: file.write(b"x"), lambda: os.fsync(file.fileno())):
                try:
                    call()
                    errors.append(None)
                except OSError as error:
                    errors.append(errno.errorcode[error.errno])
    return {"wall_s": time.time(), "monotonic_s": time.monotonic(), "waited_s": waited_s, "errors": errors}
for _ in sys.stdin:
    print(json.dumps(answer()), flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return library_of.preload_library(tmp_path_factory.mktemp("cache"))
    except EnvironmentFailure as error:
        skip_or_fail("cc", str(error))


class Child:
    """A process with the library, which is asked what it sees."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.data, elsewhere = folder / "data", folder / "elsewhere"
        self.data.mkdir()
        elsewhere.mkdir()
        self.preload = Preload(library, folder / "control", self.data)
        command = [sys.executable, "-S", "-E", "-c", CHILD, str(self.data), str(elsewhere)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(self.preload.env)
        )

    def ask(self) -> dict:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def ahead_s(self) -> float:
        return self.ask()["wall_s"] - time.time()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def child(library: Path, tmp_path: Path):
    child = Child(library, tmp_path)
    yield child
    child.close()


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0, 0.0])
def test_only_the_wall_clock_jumps(child: Child, ahead_s: float) -> None:
    child.preload.set_clock(ahead_s)
    before_s = time.monotonic()
    seen = child.ask()
    assert abs(seen["wall_s"] - time.time() - ahead_s) < 1.0
    assert before_s <= seen["monotonic_s"] <= time.monotonic()
    assert 0.2 <= seen["waited_s"] < 5.0
    child.preload.set_clock()
    assert abs(child.ahead_s()) < 1.0


def test_a_clock_can_run_faster_and_stand_still(child: Child) -> None:
    child.preload.set_clock(rate=100.0)
    assert child.ahead_s() > 5.0  # the answer takes more than 0.1 s
    child.preload.set_clock(rate=0.0)
    first, second = child.ask()["wall_s"], child.ask()["wall_s"]
    assert first == second


def test_writes_and_syncs_fail_only_in_the_data_folder(child: Child) -> None:
    assert child.ask()["errors"] == [None, None, None, None]
    child.preload.fail_writes(True)
    assert child.ask()["errors"] == ["ENOSPC", None, None, None]
    child.preload.fail_syncs(True)
    child.preload.fail_writes(False)
    assert child.ask()["errors"] == [None, "EIO", None, None]
    child.preload.fail_syncs(False)
    assert child.ask()["errors"] == [None, None, None, None]
    assert (child.preload.failed_writes, child.preload.failed_syncs) == (1, 1)
    assert child.preload.delayed_syncs == (0, 0.0)


def test_the_size_of_a_file_is_known_when_it_was_synced(child: Child) -> None:
    assert child.preload.synced_bytes() == {}
    child.preload.fail_syncs(True)
    child.ask()
    assert child.preload.synced_bytes() == {}
    child.preload.fail_syncs(False)
    child.ask()
    assert child.preload.synced_bytes() == {(child.data / "file").stat().st_ino: 1}


def test_a_sync_takes_longer(child: Child) -> None:
    child.preload.delay_syncs(0.3)
    began_s = time.monotonic()
    assert child.ask()["errors"] == [None, None, None, None]
    assert time.monotonic() - began_s >= 0.4
    count, waited_s = child.preload.delayed_syncs
    assert count == 1 and 0.3 <= waited_s < 5.0
    child.preload.delay_syncs(0.0)
    child.ask()
    assert child.preload.delayed_syncs == (count, waited_s)


def test_a_sync_that_is_slow_and_fails_is_counted_as_both(child: Child) -> None:
    child.preload.delay_syncs(0.01)
    child.preload.fail_syncs(True)
    assert child.ask()["errors"] == [None, "EIO", None, None]
    assert (child.preload.delayed_syncs[0], child.preload.failed_syncs, child.preload.failed_writes) == (
        1,
        1,
        0,
    )


def test_a_clock_that_cannot_be_set_stays_readable(child: Child) -> None:
    with pytest.raises(struct.error):
        child.preload.set_clock(1e10)  # more nanoseconds than the library can count
    assert abs(child.ahead_s()) < 1.0


def test_a_library_that_was_preloaded_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/libjemalloc.so")
    assert (
        Preload(Path("/cache/own.so"), tmp_path / "control", tmp_path).env["LD_PRELOAD"]
        == "/cache/own.so:/lib/libjemalloc.so"
    )


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_of.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentFailure, match=r"no C compiler .*: install one \(on Debian: apt-get"):
        library_of.compiler()


def test_on_another_system_the_message_names_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_of.sys, "platform", "darwin")
    with pytest.raises(EnvironmentFailure, match="only on Linux"):
        library_of.compiler()


def test_a_source_that_does_not_compile_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_of.compiler() if library_of.shutil.which("cc") else skip_or_fail("cc", "there is no compiler")
    (tmp_path / "broken.c").write_text("int broken(")
    monkeypatch.setattr(library_of, "SOURCE", tmp_path / "broken.c")
    with pytest.raises(EnvironmentFailure, match=r"could not build broken\.c"):
        library_of.preload_library(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("preload-*"))
