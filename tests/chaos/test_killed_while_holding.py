"""A run that is killed while the protocol proxy holds requests leaves no processes, ports and folders behind."""

import signal
from pathlib import Path

import psutil
import pytest

from harness.common.waiting import wait_for
from harness.environment.resources import can_listen
from harness.processes.guardian import sweep_leftovers
from tests.support.started_runs import kill_guardian, protocol_events, start_run

RULES = (
    "api=EndTxn,action=hold,times=1000,release.after_s=2",
    "api=WriteTxnMarkers,action=hold,times=1000,release.after_s=2,links=peer",
)


@pytest.mark.parametrize("moment", range(1, 11))
def test_a_run_killed_while_requests_are_held_leaves_nothing_behind(moment: int, tmp_path: Path) -> None:
    """The moment is the number of requests that were held until the kill. At each second moment the guardian too."""
    store = tmp_path / "store"
    options = ("--nemesis", "none", "--time-limit", "60", "--seed", str(moment), "--store", str(store))
    rules = [word for rule in RULES for word in ("--rule", rule)]
    with start_run(tmp_path / "log", *options, *rules) as run:

        def are_held(_: str) -> bool:
            held, released = (len(protocol_events(store, event)) for event in ("held", "released"))
            return held >= 3 * moment and released < held

        run.await_output(are_held, f"{3 * moment} requests to be held")
        ports = {
            connection.laddr.port
            for child in run.children()
            for connection in child.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert len(ports) > 30 and not any(map(can_listen, ports))
        guardian_too = moment % 2 == 0
        if guardian_too:
            kill_guardian(run.process.pid)
        run.signal(signal.SIGKILL)
        run.process.wait()
        if guardian_too:
            assert run.leftovers()
            sweep_leftovers()
        run.await_no_leftovers()
        wait_for(lambda: all(map(can_listen, ports)), "its ports to be free", 10)
