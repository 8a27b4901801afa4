"""A bench that Ctrl-C ends early leaves a page of its measurements, and nothing else."""

import json
import signal
from pathlib import Path

from tests.support.started_runs import start_run

TINY = ("--client", "librdkafka", "--txn-size", "10", "--partitions", "3", "--workers", "1", "--seed", "1")


def test_ctrl_c_ends_a_bench_early_and_keeps_its_measurements(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with start_run(tmp_path / "log", *TINY, "--store", str(store), command="bench") as bench:
        bench.await_output(lambda output: " 2/24 " in output, "two measurements")
        bench.signal(signal.SIGINT)
        assert bench.process.wait(60) == 0
        assert "Traceback" not in bench.output()
        assert "cut short: 2 of 24 measurements" in bench.output()
        bench.await_no_leftovers()
    (folder,) = (store / "bench").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["bench.html", "bench.json"]
    figures = json.loads((folder / "bench.json").read_text())
    assert figures["cut_short"] == "interrupted"
    assert all(point["inputs_per_s"] > 0 for point in figures["points"])
    assert "Cut short" in (folder / "bench.html").read_text()


def test_ctrl_c_before_the_first_measurement_leaves_no_folder(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with start_run(tmp_path / "log", *TINY, "--store", str(store), command="bench") as bench:
        bench.await_output(lambda output: "cluster" in output, "the cluster to be started")
        bench.signal(signal.SIGINT)
        assert bench.process.wait(60) == 130
        assert "Traceback" not in bench.output()
        bench.await_no_leftovers()
    assert not list((store / "bench").iterdir())
