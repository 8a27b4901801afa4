"""A job of a user, which ends by itself and is started again: Apache Kafka's TransactionalMessageCopier."""

from pathlib import Path

import pytest

import fencepost

COPIER = Path(__file__).resolve().parents[2] / "examples" / "copier"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_correct_job_is_valid_under_kills_and_its_ends_give_no_warning(seed: int, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(COPIER / "pipeline.toml"),
        nemesis="kill-instance",
        time_limit=30,
        seed=seed,
        store=str(tmp_path),
    )
    result.assert_valid()
    started = {log.name.rsplit(".", 1)[0] for log in (result.folder / "workers").glob("copy-*.log")}
    assert len(started) > 3 + len(result.faults), "an instance that ended with status 0 was started again"
    assert [warning for warning in result.verdict["warnings"] if warning["code"] == "unexpected-end"] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_a_job_that_commits_offsets_with_its_group_id_alone_is_caught(seed: int, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(COPIER / "group-id-only.toml"),
        nemesis="pause-instance-unreplaced",
        time_limit=60,
        seed=seed,
        store=str(tmp_path),
    )
    assert result.valid is False, result.explain()
    assert "reprocessed-input" in result.anomalies, result.explain()


def test_a_job_that_commits_offsets_with_the_metadata_of_its_group_is_valid_as_a_zombie(
    tmp_path: Path,
) -> None:
    result = fencepost.run(
        pipeline=str(COPIER / "pipeline.toml"),
        nemesis="pause-instance-unreplaced",
        time_limit=60,
        seed=1,
        store=str(tmp_path),
    )
    result.assert_valid()
