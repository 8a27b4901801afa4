"""The process of a cell is told its run whole, and leaves how that ended."""

from pathlib import Path

from fencepost.suites.cell_process import CellRequest, CellResult
from harness.processes.encoding import decode, encode
from harness.settings.options import Options


def test_a_cell_is_told_its_options_whole(tmp_path: Path) -> None:
    options = Options(
        workload="echo",
        nemesis=("kill-worker", "pause-worker@after-send"),
        seed=2**63 - 1,
        time_limit_s=12.5,
        empty_share=0.25,
        spark_conf={"spark.ui.enabled": "false"},
        settings={"ssl.key.password": "secret"},
        permits=("workers",),
        transaction_version=2,
        static_membership=True,
    )
    spec = CellRequest(options, "fencepost run", tmp_path / "ended.json", judge=True)
    assert decode(CellRequest, encode(spec)) == spec


def test_how_a_cell_ended_is_read_back_and_a_torn_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "ended.json"
    assert CellResult.load(path) is None
    ended = CellResult(4, "the disk is full")
    ended.save(path)
    assert CellResult.load(path) == ended
    path.write_text('{"status": 4')
    assert CellResult.load(path) is None
