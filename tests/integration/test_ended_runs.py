"""A run that is ended from outside leaves no processes, and says in its verdict that it was ended."""

import json
import signal
from pathlib import Path

from tests.support.started_runs import has_commits, protocol_events, start_run

OPTIONS = ("--brokers", "1", "--nemesis", "none", "--time-limit", "60", "--seed", "3", "--name", "ended")


def test_a_run_whose_protocol_proxy_is_killed_ends_and_says_why(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with start_run(
        tmp_path / "log", *OPTIONS, "--store", str(store), "--rule", "api=EndTxn,action=hold,client=stall"
    ) as run:
        run.await_output(lambda _: bool(protocol_events(store, "held")), "a request to be held")
        (proxy,) = [child for child in run.children() if "harness.protocol.proxy" in child.info["cmdline"]]
        proxy.kill()
        assert run.process.wait(60) == 4
        run.await_no_leftovers()
    (message,) = [line for line in run.output().splitlines() if line.startswith("fencepost: ")]
    ended = f"the links of the run has ended: protocol-proxy, process {proxy.pid} ended by SIGKILL"
    (log,) = store.glob("ended/*/**/protocol-proxy.log")
    assert ended in message and "Traceback" not in run.output()
    assert log.read_text().splitlines()[-1] in message


def test_the_first_ctrl_c_ends_the_run_early_and_checks_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with start_run(tmp_path / "log", *OPTIONS, "--store", str(store)) as run:
        run.await_output(has_commits, "transactions to be committed")
        run.signal(signal.SIGINT)
        assert run.process.wait(120) == 3
        run.await_no_leftovers()
    verdict = json.loads(next(store.glob("ended/*/verdict.json")).read_text())
    assert verdict["valid"] == "unknown"
    assert "interrupted" in [reason["code"] for reason in verdict["unknown_because"]]
    assert verdict["coverage"]["committed"] > 0
    assert next(store.glob("ended/*/report.html")).stat().st_size > 0


def test_the_second_ctrl_c_stops_the_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with start_run(tmp_path / "log", *OPTIONS, "--store", str(tmp_path / "store")) as run:
        run.await_output(has_commits, "transactions to be committed")
        run.signal(signal.SIGINT)
        run.await_output(lambda text: "drain" in text, "the run to drain")
        run.signal(signal.SIGINT)
        assert run.process.wait(60) == 130
        assert "Traceback" not in run.output()
        run.await_no_leftovers()
