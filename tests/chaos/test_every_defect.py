"""Every defect with five seeds or more, and its control: the same schedule, right. Asked for by `make chaos`.

From seed to seed another workload has the defect, and another client, until each workload that can have it had it.
"""

from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result
from workloads.defects.registry import DEFECTS
from workloads.registry import WORKLOADS

LEAST_SEEDS = 5


def cases() -> list[object]:
    """By defect and seed, the workload and the client."""
    found: list[object] = []
    for defect in DEFECTS.values():
        able = [workload.name for workload in WORKLOADS.values() if defect.fits(workload)]
        clients = sorted(defect.clients, reverse=True)
        for seed in range(1, max(LEAST_SEEDS, len(able)) + 1):
            workload, client = able[(seed - 1) % len(able)], clients[(seed - 1) % len(clients)]
            name = f"{defect.name}-{seed}-{workload}-{client}"
            found.append(pytest.param(defect.name, workload, client, seed, id=name))
    return found


def found(result: Result, *, warnings: bool) -> set[str]:
    """The anomalies that are nobody's consequence, and that neither Kafka nor the workload permits."""
    return {
        name
        for name, body in result.verdict["anomalies"].items()
        if ((body.get("warning") and warnings) or not body["allowed"]) and not body.get("because")
    }


@pytest.mark.parametrize(("name", "workload", "client", "seed"), cases())
def test_a_defect_is_caught_by_its_own_set_and_its_control_is_valid(
    name: str, workload: str, client: str, seed: int, tmp_path: Path
) -> None:
    result = fencepost.run(
        defect=name, workload=workload, client=client, seed=seed, time_limit=30, store=str(tmp_path)
    )
    assert found(result, warnings=True) & DEFECTS[name].anomalies, result.explain()
    assert found(result, warnings=False) <= DEFECTS[name].anomalies, result.explain()
    control = fencepost.replay(result.folder, without_defect=True)
    assert control.valid is True, control.explain()
