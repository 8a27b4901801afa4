"""The container image of a run, and the archives of classes that it makes."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.checks import spark
from fencepost.runs.preparing import archives_beside, image_choice
from harness.common.errors import StartFailed
from harness.common.waiting import wait_for
from harness.environment.cache import Builder
from harness.processes.child import Child


@pytest.mark.parametrize(
    ("faults", "image", "expected"),
    [
        ({"drop-packets"}, "auto", "bundled"),
        ({"kill-broker", "drop-packets"}, "auto", "bundled"),
        ({"disconnect-broker"}, "auto", "auto"),
        (set(), "auto", "auto"),
        ({"drop-packets"}, "mine:1", "mine:1"),  # its label says whether it has iptables
    ],
)
def test_drop_packets_chooses_an_image_with_iptables(faults: set[str], image: str, expected: str) -> None:
    messages: list[str] = []
    assert image_choice(image, faults, messages.append) == expected
    assert [line for line in messages if "iptables" in line] == messages and len(messages) == (
        expected != image
    )


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], bool]:
    """Replace the archives by `sleep 60`. Tell whether it runs."""
    children: list[Child] = []

    def sleep(java: object, builder: Builder) -> None:
        child = builder.spawn(["sleep", "60"], name="sleep", log_file=tmp_path / "log", cwd=tmp_path)
        children.append(child)
        child.wait(60.0)
        raise StartFailed("sleep has ended")

    monkeypatch.setattr(spark, "make_archive", sleep)
    return lambda: any(child.running for child in children)


def prepared(*, first: bool) -> Any:
    return SimpleNamespace(java=None, kafka=None, cache=None, upgrades={}, kafka_is_new=first)


@pytest.mark.processes
def test_an_interrupted_run_leaves_no_archive_being_made(sleeping: Callable[[], bool]) -> None:
    with pytest.raises(KeyboardInterrupt), archives_beside(prepared(first=False), print):
        wait_for(sleeping, "the archive to be made", 30.0)
        raise KeyboardInterrupt
    assert not sleeping()


def test_the_first_run_makes_no_archive(sleeping: Callable[[], bool]) -> None:
    with archives_beside(prepared(first=True), print):
        assert "archives" not in {thread.name for thread in threading.enumerate()}
    assert not sleeping()


def test_a_run_waits_for_the_archives_that_it_makes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    messages: list[str] = []

    def fail(java: object, builder: Builder) -> None:
        ended.wait(30.0)
        raise StartFailed("Spark wrote no archive: no space left")

    monkeypatch.setattr(spark, "make_archive", fail)

    def say(message: str) -> None:
        messages.append(message)
        ended.set()

    with archives_beside(prepared(first=False), say):
        pass
    assert messages == ["waiting for archives of classes, from which later runs start sooner (once)"]
    assert "no space left" in caplog.text
