"""Kafka Streams under kills: a foreign-key join with standby replicas relies on where Java's producer puts a key."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from tests.support.needs import skip_or_fail

STREAMS = Path(__file__).resolve().parents[2] / "examples" / "streams"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the example with its programs compiled."""
    if shutil.which("java") is None:
        skip_or_fail("java", "there is no command java, which runs examples/streams")
    subprocess.run([sys.executable, str(STREAMS / "build.py")], check=True)
    return STREAMS


def run(file: Path, seed: int, store: Path) -> fencepost.Result:
    return fencepost.run(
        pipeline=str(file), nemesis="kill-instance", time_limit=60, seed=seed, store=str(store)
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_foreign_key_join_is_valid_while_instances_are_killed(
    seed: int, programs: Path, tmp_path: Path
) -> None:
    result = run(programs / "orders.toml", seed, tmp_path)
    assert result.valid is True, result.explain()
    assert result.faults and all(fault["acted"] for fault in result.faults)


def test_a_join_finds_no_key_that_is_in_another_partition_than_with_java(
    programs: Path, tmp_path: Path
) -> None:
    result = run(programs / "orders-crc32-wrong.toml", 1, tmp_path)
    assert result.valid is False, result.explain()
    assert result.anomalies == {"lost-input"}, result.explain()
    found = result.verdict["anomalies"]["lost-input"]
    assert found["origin"]["kind"] == "test", found["origin"]
    assert "for which CRC32 (librdkafka) and murmur2" in found["affected"]["contrasts"][0]["sentence"]
