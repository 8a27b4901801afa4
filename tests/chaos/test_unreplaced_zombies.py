"""Zombies whose transactional ids nobody takes: only the group can reject their offsets (KIP-447)."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fencepost
from tests.support.needs import skip_or_fail

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SARAMA = EXAMPLES / "sarama"
SEEDS = range(1, 4)


@pytest.fixture(scope="module")
def sarama() -> Path:
    """The folder of the example with its program built."""
    if shutil.which("go") is None:
        skip_or_fail("go", "there is no command go, which builds examples/sarama")
    subprocess.run(["go", "build", "-o", "billing", "."], cwd=SARAMA, check=True)
    return SARAMA


def run(file: Path, nemesis: str, seed: int, store: Path) -> fencepost.Result:
    return fencepost.run(pipeline=str(file), nemesis=nemesis, time_limit=45, seed=seed, store=str(store))


def zombie_of(result: fencepost.Result) -> str:
    """The evidence of the only fault of the run. Assert that it acted, and met no new owner of the id."""
    (fault,) = result.faults
    assert fault["acted"] and " was Ongoing before it was resumed" in fault["evidence"], result.explain()
    return fault["evidence"]


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_with_a_generation_are_rejected(seed: int, sarama: Path, tmp_path: Path) -> None:
    result = run(sarama / "pipeline.toml", "pause-instance-unreplaced", seed, tmp_path)
    assert result.valid is True, result.explain()
    zombie_of(result)


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_with_the_id_of_the_group_alone_repeat_inputs(
    seed: int, sarama: Path, tmp_path: Path
) -> None:
    result = run(sarama / "group-id-only.toml", "pause-instance-unreplaced", seed, tmp_path)
    assert result.valid is False, result.explain()
    zombie_of(result)
    assert "reprocessed-input" in result.anomalies


def test_a_replacement_hides_that_the_generation_is_missing(sarama: Path, tmp_path: Path) -> None:
    result = run(sarama / "group-id-only.toml", "pause-instance", 1, tmp_path)
    assert result.valid is True, result.explain()


def test_a_zombie_that_has_added_its_offsets_is_fenced_after_the_transaction_time_out(
    sarama: Path, tmp_path: Path
) -> None:
    result = run(sarama / "group-id-only.toml", "pause-instance-unreplaced@offsets-added", 1, tmp_path)
    assert result.valid is True, result.explain()
    (fault,) = result.faults
    assert fault["acted"] and " was CompleteAbort before it was resumed" in fault["evidence"]


@pytest.mark.usefixtures("python_of_examples")
def test_a_correct_program_is_valid(tmp_path: Path) -> None:
    result = run(EXAMPLES / "billing" / "pipeline.toml", "pause-instance-unreplaced", 1, tmp_path)
    assert result.valid is True, result.explain()
    (fault,) = (
        result.faults
    )  # its transactional id is not known before the run, so its transaction may have ended
    assert fault["acted"] and "the others had committed" in fault["evidence"]


@pytest.mark.parametrize("workload", ["shop", "txn"])  # the stage of txn has no group
def test_a_worker_that_nobody_replaces_has_no_effect(workload: str, tmp_path: Path) -> None:
    result = fencepost.run(
        workload=workload, nemesis="pause-worker-unreplaced", time_limit=60, seed=1, store=str(tmp_path)
    )
    assert result.valid is True, result.explain()
    assert all(fault["acted"] for fault in result.faults)
