"""A real PostgreSQL, the machine's and the bundled one: as a store, as an outbox, killed, and gone when the run is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from harness.common.errors import StartFailed
from harness.common.waiting import wait_for
from harness.databases import postgres_server
from harness.databases.interface import (
    CommitUnknown,
    DatabaseError,
    DatabaseParts,
    InputTable,
    NewTableRow,
    Service,
)
from harness.databases.postgres_kind import PostgresKind
from harness.environment.ports import PortBlock
from harness.environment.postgres import Postgres, bundled_postgres, find_postgres, system_postgres
from harness.processes.spawn import Supervisor
from tests.support.store_conformance import check_store

KIND = PostgresKind()


@dataclass
class Up:
    """A server, and how to reach it."""

    service: Service
    folder: Path

    def inputs(self) -> InputTable:
        return KIND.inputs(KIND.address(self.folder))


@pytest.fixture(scope="module", params=["auto", "bundled"])
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("run")
    with (
        Supervisor() as supervisor,
        PortBlock(tmp_path_factory.mktemp("cache")) as ports,
        KIND.provide(DatabaseParts(folder, supervisor, ports.take, find_postgres(request.param))) as service,
    ):
        yield Up(service, folder)


@pytest.fixture
def outbox(up: Up) -> Up:
    with psycopg.connect(Path(KIND.address(up.folder)).read_text(), autocommit=True) as connection:
        connection.execute("TRUNCATE outbox, orders RESTART IDENTITY")
        connection.execute("UPDATE relayed SET beyond = 0")
    return up


def row(name: str, content: bytes | None = b"v") -> NewTableRow:
    return NewTableRow(name, b"k", content)


def test_it_does_what_every_store_must(up: Up) -> None:
    check_store(lambda: KIND.connect(KIND.address(up.folder)))


def test_a_row_is_visible_once_it_is_committed_and_may_come_after_higher_numbers(outbox: Up) -> None:
    late, soon, undone, reader = (outbox.inputs() for _ in range(4))
    assert (late.write([row("l")]), undone.write([row("u")]), soon.write([row("s"), row("t", None)])) == (
        [1],
        [2],
        [3, 4],
    )
    soon.commit()
    undone.roll_back()
    assert [one.number for one in reader.take(9)] == [3, 4]
    reader.roll_back()
    late.commit()
    rows, end = reader.read_all()
    assert [(one.number, one.value, one.content) for one in rows] == [
        (1, "l", b"v"),
        (3, "s", b"v"),
        (4, "t", None),
    ]
    assert end == 5


def test_rows_that_one_relay_has_taken_are_passed_over_by_the_next(outbox: Up) -> None:
    one, other, asking = (outbox.inputs() for _ in range(3))
    one.write([row(name) for name in "abc"])
    one.commit()
    assert [taken.number for taken in one.take(2)] == [1, 2]
    assert [taken.number for taken in other.take(2)] == [3]
    one.mark([1, 2])
    assert asking.count_pending() == 3
    one.commit()
    other.roll_back()
    assert (
        asking.count_pending() == 1
        and asking.count_pending((1, 3)) == 0
        and asking.count_pending((3, 4)) == 1
    )
    assert [done.done for done in asking.read_all()[0]] == [True, True, False]


def test_a_place_that_all_have_in_common_leaves_late_rows_behind(outbox: Up) -> None:
    late, one, other = (outbox.inputs() for _ in range(3))
    late.write([row("l")])
    one.write([row("s")])
    one.commit()
    assert [taken.number for taken in one.take_after_position(9)] == [2]
    assert other.take_after_position(9) == []
    one.move_position(2)
    one.commit()
    late.commit()
    other.roll_back()
    assert other.take_after_position(9) == [] and other.count_pending() == 0


def test_what_was_committed_survives_a_kill_and_clients_come_back(outbox: Up) -> None:
    writer, relay = outbox.inputs(), outbox.inputs()
    writer.write([row("kept")])
    writer.commit()
    assert relay.take(1)
    writer.write([row("lost")])
    assert "ended by SIGKILL, and" in outbox.service.kill()
    assert outbox.service.is_healthy
    with pytest.raises(CommitUnknown):
        writer.commit()
    with pytest.raises(DatabaseError):
        relay.mark([1])
    assert "it answered after" in outbox.service.start()
    assert [one.value for one in relay.take(9)] == ["kept"]
    relay.roll_back()
    assert writer.write([row("new")])[0] > 2
    writer.roll_back()


def test_a_transaction_whose_client_does_nothing_is_ended_and_holds_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_server._SETTINGS, "idle_in_transaction_session_timeout", "100ms")
    with (
        Supervisor() as supervisor,
        PortBlock(tmp_path / "cache") as ports,
        KIND.provide(DatabaseParts(tmp_path, supervisor, ports.take, find_postgres("auto"))),
    ):
        paused, other = (KIND.inputs(KIND.address(tmp_path)) for _ in range(2))
        paused.write([row("a")])
        paused.commit()
        assert paused.take(1)

        def taken() -> bool:
            rows = other.take(1)
            other.roll_back()
            return bool(rows)

        wait_for(taken, "the lock to be given up", 10)
        with pytest.raises(DatabaseError):
            paused.mark([1])


def test_a_server_that_cannot_start_says_so_in_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("initdb", "postgres"):
        (programs / name).write_text("#!/bin/sh\necho 'FATAL:  no space left on device'\nexit 1\n")
        (programs / name).chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    with Supervisor() as supervisor, PortBlock(tmp_path / "cache") as ports:
        parts = DatabaseParts(tmp_path, supervisor, ports.take, Postgres(programs, "15.0", "a test"))
        with (
            pytest.raises(
                StartFailed, match="could not create PostgreSQL's data folder: FATAL:  no space left"
            ),
            KIND.provide(parts),
        ):
            pass
        (scratch,) = supervisor._folders
    assert not scratch.exists()


SCRIPT = """
import os, signal, sys
from pathlib import Path
from harness.environment.ports import PortBlock
from harness.environment.postgres import find_postgres
from harness.processes.spawn import Supervisor
from harness.databases.interface import DatabaseParts
from harness.databases.postgres_kind import PostgresKind
folder = Path(sys.argv[1])
with Supervisor() as supervisor, PortBlock(folder / "cache") as ports:
    with PostgresKind().provide(DatabaseParts(folder, supervisor, ports.take, find_postgres("auto"))) as service:
        data = service._data
        pids = [service._child.pid, *(one.pid for one in service._others())]
        print(data, (data / "postmaster.pid").read_text().splitlines()[6].split()[-1], *pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_leaves_no_process_no_folder_and_no_shared_memory(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    data, segment, *pids = killed.stdout.split()

    def gone() -> bool:
        there = [pid for pid in map(int, pids) if psutil.pid_exists(pid)]
        alive = [pid for pid in there if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
        segments = Path("/proc/sysvipc/shm")
        told = segments.read_text().split() if segments.exists() else []
        return not alive and not Path(data).parent.exists() and segment not in told

    wait_for(gone, "nothing to be left", 20)


def test_the_machines_newest_server_is_chosen() -> None:
    own = system_postgres()
    assert find_postgres("auto") == (own or bundled_postgres())
