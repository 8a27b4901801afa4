"""Large logs are read in a process of their own: the same tables come of it, and the same errors."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.errors import EnvironmentFailure
from harness.record.partitions import PartitionIds
from harness.record.schema import LOG
from harness.witness import beside
from harness.witness.beside import capturing
from harness.witness.capture import ReplicaSource

DATA = Path(__file__).parent / "data"
TOPICS = ["purchases", "invoices-eu"]


def read(out: Path, sources: Sequence[ReplicaSource]) -> list[tuple[int, str, int]]:
    """Read the logs, beside journals that name partitions and have 1,000 operations."""
    names = PartitionIds()
    with capturing(1, sources, {}, out, TOPICS, {("purchases", 0): 3}) as finish:
        names.id("invoices-eu", 7)  # the journals', which are first
        names.id("purchases", 0)
        finish(names, len)
    return list(names)


def test_the_tables_are_those_that_are_read_after_the_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [ReplicaSource(1, DATA)]
    after = read(tmp_path / "after", sources)
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    monkeypatch.setattr(beside, "capture", lambda *_: pytest.fail("it was read here"))
    assert read(tmp_path / "beside", sources) == after
    for table in LOG:
        first, second = (pq.read_table(tmp_path / way / f"{table}.parquet") for way in ("after", "beside"))
        assert first.num_rows > 0
        assert first.equals(second), table
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("after", "beside")] == []


def test_what_is_wrong_is_said_as_without_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    with pytest.raises(EnvironmentFailure, match="broker 2"):
        read(tmp_path / "log", [ReplicaSource(2, tmp_path / "nowhere")])
    assert "EnvironmentFailure" in capfd.readouterr().err  # of the process
    assert list(tmp_path.glob("*.unnumbered")) == []


def test_an_error_beside_it_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "LARGE_BYTES", 0)
    with (
        pytest.raises(ZeroDivisionError),
        capturing(1, [ReplicaSource(1, DATA)], {}, tmp_path / "log", TOPICS, {}),
    ):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
