"""Instances of a custom pipeline leave cleanly and join: a correct program tolerates it."""

from pathlib import Path

import pytest

import fencepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.usefixtures("python_of_examples")
@pytest.mark.parametrize("nemesis", ["restart-instance", "scale-instances", "scale-instances@down"])
def test_a_correct_program_is_valid_while_instances_leave_and_join(nemesis: str, tmp_path: Path) -> None:
    result = fencepost.run(
        pipeline=str(EXAMPLES / "billing" / "pipeline.toml"),
        nemesis=nemesis,
        time_limit=40,
        seed=1,
        store=str(tmp_path),
    )
    assert result.valid is True, result.explain()
    assert result.faults and all(fault["acted"] for fault in result.faults)
