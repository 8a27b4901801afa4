"""The request and the result of the process of a cell."""

from pathlib import Path

from fencepost.suites.cells import CellRequest, CellResult
from harness.processes.messages import decode, encode
from harness.settings.options import Options


def test_a_cell_request_keeps_all_options(tmp_path: Path) -> None:
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
    request = CellRequest(options, "fencepost run", tmp_path / "ended.json", judge=True)
    assert decode(CellRequest, encode(request)) == request


def test_a_cell_result_is_read_back_and_an_incomplete_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "ended.json"
    assert CellResult.load(path) is None
    cell_result = CellResult(4, "the disk is full")
    cell_result.save(path)
    assert CellResult.load(path) == cell_result
    path.write_text('{"status": 4')
    assert CellResult.load(path) is None
