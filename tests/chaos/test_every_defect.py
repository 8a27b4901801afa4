"""Every defect with five seeds, and its control: the same schedule, right. Asked for by `make chaos`."""

from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result
from workloads.defects import DEFECTS
from workloads.registry import WORKLOADS

CASES = [
    pytest.param(defect.name, workload.name, id=f"{defect.name}-{workload.name}")
    for defect in DEFECTS.values()
    for workload in WORKLOADS.values()
    if defect.fits(workload)
]
SEEDS = range(1, 6)


def found(result: Result, *, warnings: bool) -> set[str]:
    """The anomalies that are nobody's consequence, and that neither Kafka nor the workload permits."""
    return {
        name
        for name, body in result.verdict["anomalies"].items()
        if ((body.get("warning") and warnings) or not body["allowed"]) and not body.get("because")
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "workload"), CASES)
def test_a_defect_is_caught_by_its_own_set_and_its_control_is_valid(
    name: str, workload: str, seed: int, tmp_path: Path
) -> None:
    client = sorted(DEFECTS[name].clients, reverse=True)[0]
    result = fencepost.run(
        defect=name, workload=workload, client=client, seed=seed, time_limit=30, store=str(tmp_path)
    )
    assert found(result, warnings=True) & DEFECTS[name].anomalies, result.explain()
    assert found(result, warnings=False) <= DEFECTS[name].anomalies, result.explain()
    control = fencepost.replay(result.folder, without_defect=True)
    assert control.valid is True, control.explain()
