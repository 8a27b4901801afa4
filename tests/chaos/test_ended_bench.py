"""A bench that is ended early leaves a page of what it has measured, and nothing else."""

import json
import signal
from pathlib import Path

from tests.support.started_runs import started

TINY = ("--client", "librdkafka", "--txn-size", "10", "--partitions", "3", "--workers", "1", "--seed", "1")


def test_ctrl_c_ends_a_bench_and_leaves_a_page_of_what_was_measured(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with started(tmp_path / "log", *TINY, "--store", str(store), command="bench") as bench:
        bench.await_said(lambda said: " 2/24 " in said, "two measurements")
        bench.signal(signal.SIGINT)
        assert bench.process.wait(60) == 0
        assert "Traceback" not in bench.said()
        assert "cut short: 2 of 24 measurements" in bench.said()
        bench.await_nothing_left()
    (folder,) = (store / "bench").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["bench.html", "bench.json"]
    figures = json.loads((folder / "bench.json").read_text())
    assert figures["cut_short"] == "interrupted"
    assert all(point["inputs_per_s"] > 0 for point in figures["points"])
    assert "Cut short" in (folder / "bench.html").read_text()


def test_ctrl_c_before_anything_was_measured_leaves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with started(tmp_path / "log", *TINY, "--store", str(store), command="bench") as bench:
        bench.await_said(lambda said: "cluster" in said, "the cluster to be started")
        bench.signal(signal.SIGINT)
        assert bench.process.wait(60) == 130
        assert "Traceback" not in bench.said()
        bench.await_nothing_left()
    assert not list((store / "bench").iterdir())
