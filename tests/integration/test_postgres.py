"""A real PostgreSQL, the machine's and the bundled one: as a database, as an outbox, and after a kill."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
from harness.databases.registry import PostgresKind
from harness.environment.postgres import Postgres, bundled_postgres, find_postgres, system_postgres
from harness.environment.resources import PortBlock
from harness.processes.guardian import start_time
from harness.processes.spawn import Supervisor
from tests.support.store_conformance import check_store

KIND = PostgresKind()


@dataclass
class RunningServer:
    """A running server, and its folder, which has its address."""

    service: Service
    folder: Path

    def inputs(self) -> InputTable:
        return KIND.inputs(KIND.address(self.folder))


@pytest.fixture(scope="module", params=["auto", "bundled"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("run")
    with (
        Supervisor() as supervisor,
        PortBlock(tmp_path_factory.mktemp("cache")) as ports,
        KIND.provide(DatabaseParts(folder, supervisor, ports.take, find_postgres(request.param))) as service,
    ):
        yield RunningServer(service, folder)


@pytest.fixture
def outbox(server: RunningServer) -> RunningServer:
    with psycopg.connect(Path(KIND.address(server.folder)).read_text(), autocommit=True) as connection:
        connection.execute("TRUNCATE outbox, orders RESTART IDENTITY")
        connection.execute("UPDATE relayed SET beyond = 0")
    return server


def row(name: str, content: bytes | None = b"v") -> NewTableRow:
    return NewTableRow(name, b"k", content)


def test_postgres_conforms_to_the_interface_of_databases(server: RunningServer) -> None:
    check_store(lambda: KIND.connect(KIND.address(server.folder)))


def test_a_row_is_visible_after_its_commit_even_after_higher_numbers(outbox: RunningServer) -> None:
    late, soon, undone, reader = (outbox.inputs() for _ in range(4))
    assert (late.write([row("l")]), undone.write([row("u")]), soon.write([row("s"), row("t", None)])) == (
        [1],
        [2],
        [3, 4],
    )
    soon.commit()
    undone.roll_back()
    assert [taken.number for taken in reader.take(9)] == [3, 4]
    reader.roll_back()
    late.commit()
    rows, end = reader.read_all()
    assert [(visible.number, visible.value, visible.content) for visible in rows] == [
        (1, "l", b"v"),
        (3, "s", b"v"),
        (4, "t", None),
    ]
    assert end == 5


def test_a_relay_skips_rows_that_another_relay_has_taken(outbox: RunningServer) -> None:
    first, second, counter = (outbox.inputs() for _ in range(3))
    first.write([row(name) for name in "abc"])
    first.commit()
    assert [taken.number for taken in first.take(2)] == [1, 2]
    assert [taken.number for taken in second.take(2)] == [3]
    first.mark([1, 2])
    assert counter.count_pending() == 3
    first.commit()
    second.roll_back()
    assert (
        counter.count_pending() == 1
        and counter.count_pending((1, 3)) == 0
        and counter.count_pending((3, 4)) == 1
    )
    assert [written.done for written in counter.read_all()[0]] == [True, True, False]


def test_a_shared_position_skips_rows_that_commit_late(outbox: RunningServer) -> None:
    late, first, second = (outbox.inputs() for _ in range(3))
    late.write([row("l")])
    first.write([row("s")])
    first.commit()
    assert [taken.number for taken in first.take_after_position(9)] == [2]
    assert second.take_after_position(9) == []
    first.move_position(2)
    first.commit()
    late.commit()
    second.roll_back()
    assert second.take_after_position(9) == [] and second.count_pending() == 0


def test_committed_rows_survive_a_kill_and_clients_connect_again(outbox: RunningServer) -> None:
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
    assert [taken.value for taken in relay.take(9)] == ["kept"]
    relay.roll_back()
    assert writer.write([row("new")])[0] > 2
    writer.roll_back()


def test_the_server_ends_an_idle_transaction_and_releases_its_rows(
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

        def is_lock_free() -> bool:
            rows = other.take(1)
            other.roll_back()
            return bool(rows)

        wait_for(is_lock_free, "the lock to be given up", 10)
        with pytest.raises(DatabaseError):
            paused.mark([1])


def test_a_server_that_cannot_start_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
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


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from harness.environment.resources import PortBlock
from harness.environment.postgres import find_postgres
from harness.processes.spawn import Supervisor
from harness.databases.interface import DatabaseParts
from harness.databases.registry import PostgresKind
folder = Path(sys.argv[1])
with Supervisor() as supervisor, PortBlock(folder / "cache") as ports:
    with PostgresKind().provide(DatabaseParts(folder, supervisor, ports.take, find_postgres("auto"))) as service:
        data = service._data
        pids = [service._child.pid, *(process.pid for process in service._descendants())]
        print(data, (data / "postmaster.pid").read_text().splitlines()[6].split()[-1], *pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_no_process_no_folder_and_no_shared_memory(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-P", "-c", KILLED_RUN, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    data, segment, *pids = killed.stdout.split()

    def gone() -> bool:
        alive = [pid for pid in pids if start_time(int(pid)) is not None]
        segments = Path("/proc/sysvipc/shm")
        segment_words = segments.read_text().split() if segments.exists() else []
        return not alive and not Path(data).parent.exists() and segment not in segment_words

    wait_for(gone, "nothing to be left", 20)


def test_the_servers_of_the_machine_have_priority_over_the_bundled_one() -> None:
    newest = system_postgres()
    assert find_postgres("auto") == (newest or bundled_postgres())
