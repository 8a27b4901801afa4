"""Every case, each a test of its own, on what one job said of all of them."""

from collections.abc import Mapping

import pytest
from cases import CASES, Case

from harness.verdict import Judgement


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, judged: Mapping[str, Judgement]) -> None:
    judgement = judged[case.name]
    found = {name: anomaly.count for name, anomaly in judgement.anomalies.items()}
    assert found == dict(case.finds), judgement.broken
    for name, cause in case.because.items():
        assert judgement.anomalies[name].because == cause
    said = "; ".join(judgement.broken.values())
    for part in case.broken:
        assert part in said
    if not case.broken:
        assert not judgement.broken
    for name in case.not_checked:
        assert name in judgement.not_checked
