"""Every defect with five seeds or more, and its control: the same schedule without the defect (`make chaos`).

The workload and the client change from seed to seed, until each workload that can have the defect had it.
"""

from pathlib import Path

import pytest

import fencepost
from fencepost.api import Result
from tests.support.diagrams import assert_drawn
from workloads.defects import DEFECTS
from workloads.registry import WORKLOADS

LEAST_SEEDS = 5


def cases() -> list[object]:
    """Return a case for each defect and seed, with its workload and client."""
    all_cases: list[object] = []
    for defect in DEFECTS.values():
        suitable = [workload.name for workload in WORKLOADS.values() if defect.fits(workload)]
        clients = sorted(defect.clients, reverse=True)
        for seed in range(1, max(LEAST_SEEDS, len(suitable)) + 1):
            workload, client = suitable[(seed - 1) % len(suitable)], clients[(seed - 1) % len(clients)]
            name = f"{defect.name}-{seed}-{workload}-{client}"
            all_cases.append(pytest.param(defect.name, workload, client, seed, id=name))
    return all_cases


def independent_findings(result: Result, *, warnings: bool) -> set[str]:
    """Return the anomalies that no other anomaly causes, and that neither Kafka nor the workload permits."""
    return {
        name
        for name, body in result.verdict["anomalies"].items()
        if ((body.get("warning") and warnings) or not body["allowed"]) and not body.get("because")
    }


@pytest.mark.parametrize(("name", "workload", "client", "seed"), cases())
def test_a_defect_shows_only_its_anomalies_and_its_control_is_valid(
    name: str, workload: str, client: str, seed: int, tmp_path: Path
) -> None:
    result = fencepost.run(
        defect=name, workload=workload, client=client, seed=seed, time_limit=30, store=str(tmp_path)
    )
    assert independent_findings(result, warnings=True) & DEFECTS[name].anomalies, result.explain()
    assert independent_findings(result, warnings=False) <= DEFECTS[name].anomalies, result.explain()
    assert_drawn(Path(result.folder), name)
    control = fencepost.replay(result.folder, without_defect=True)
    assert control.valid is True, control.explain()
