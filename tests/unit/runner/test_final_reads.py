"""Final readers: several readers share a long log, and a reader that fails is started again, but not for ever."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.common.errors import EnvironmentFailure, StartFailed
from harness.common.waiting import wait_for
from harness.model.vocabulary import Isolation, Role
from harness.processes.specs import FinalReaderSpec, ReaderSpec
from harness.runner.final_reads import MANY_RECORDS, MAX_STARTS, assign_readers, read_all
from harness.runner.processes import Processes
from harness.runner.run_process import RunProcess
from tests.support.fake_run import EXITS_WHEN_READY, READS, Script, fake_run

TOPIC_PARTITIONS = [(topic, partition) for topic in ("in", "out") for partition in range(3)]


def await_end(processes: Processes) -> None:
    """Wait until all readers have ended. Their last output may not be read yet."""
    wait_for(lambda: not list(processes.alive_in_roles(Role.FINAL)), "the readers to end", 5.0, every_s=0.01)


def dies_first(folder: Path, times: int) -> str:
    """Return a program that dies. After `times` deaths of any of its processes, it reads."""
    return f"""
import os
for n in range({times}):
    try:
        os.close(os.open(f"{folder}/died-{{n}}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        continue
    print("Killed")
    sys.exit(1)
{READS}
"""


def readers_of(tasks: Mapping[str, ReaderSpec]) -> list[FinalReaderSpec]:
    return [task for task in tasks.values() if isinstance(task, FinalReaderSpec)]


@pytest.mark.parametrize(("records", "cpus", "many"), [(9, 8, 1), (MANY_RECORDS, 2, 2), (10**9, 64, 4)])
def test_every_partition_is_read_once_at_each_isolation_level(records: int, cpus: int, many: int) -> None:
    tasks = assign_readers(TOPIC_PARTITIONS, records, cpus)
    assert {f"final-{level}" for level in Isolation} <= tasks.keys()
    for level in Isolation:
        read = [task.partitions for task in readers_of(tasks) if task.isolation is level]
        assert (
            sorted(topic_partition for partitions in read for topic_partition in partitions)
            == TOPIC_PARTITIONS
        )
        assert len(read) == (many if level is Isolation.READ_UNCOMMITTED else 1)


def test_every_reader_has_a_partition() -> None:
    assert all(task.partitions for task in readers_of(assign_readers(TOPIC_PARTITIONS[:1], MANY_RECORDS, 4)))


@pytest.mark.processes
@pytest.mark.parametrize("times", [1, MAX_STARTS - 1])
def test_a_reader_that_dies_is_started_again(tmp_path: Path, times: int) -> None:
    body = dies_first(tmp_path, times)
    with fake_run(tmp_path, Script(others={Role.FINAL: body})) as run:
        read_all(run.processes, TOPIC_PARTITIONS, 0, stall_timeout_s=5.0, every_s=0.01)
        assert len(run.processes.unexpected_ends) == times
        assert all("started again" in why.text for why in run.processes.unexpected_ends)


@pytest.mark.processes
def test_a_reader_that_dies_again_and_again_ends_the_final_reads(tmp_path: Path) -> None:
    with fake_run(tmp_path, Script(others={Role.FINAL: EXITS_WHEN_READY})) as run:
        with pytest.raises(EnvironmentFailure, match="Segmentation fault"):
            read_all(run.processes, TOPIC_PARTITIONS, 0, stall_timeout_s=5.0, every_s=0.01)
        assert len(run.processes.all_processes) == 2 * MAX_STARTS
        await_end(run.processes)


WAITS = READS + "\nfor command in commands:\n    break"
"""A program that reads all and then waits for a command."""


def limit_starts(processes: Processes, starts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only `starts` readers start."""
    start, left = processes.start_harness_process, iter(range(starts))

    def start_few(*args: Any, **options: Any) -> RunProcess:
        if next(left, None) is None:
            raise StartFailed("the machine is full")
        return start(*args, **options)

    monkeypatch.setattr(processes, "start_harness_process", start_few)


@pytest.mark.processes
@pytest.mark.parametrize("starts", [1, 2])  # the second reader cannot be started, or the first one again
def test_if_a_reader_cannot_be_started_the_others_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int
) -> None:
    body = dies_first(tmp_path, starts - 1).replace(READS, WAITS)
    with fake_run(tmp_path, Script(others={Role.FINAL: body})) as run:
        limit_starts(run.processes, starts, monkeypatch)
        with pytest.raises(StartFailed):
            read_all(run.processes, TOPIC_PARTITIONS, 0, stall_timeout_s=20.0, every_s=0.01)
        await_end(run.processes)
