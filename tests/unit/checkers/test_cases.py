"""One test for each case. One Spark job makes the results of all cases."""

from collections.abc import Mapping

import pytest
from cases import CASES, Case

from harness.results.verdict import CheckResult


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, results: Mapping[str, CheckResult]) -> None:
    difference = case.differs(results[case.name])
    assert difference is None, difference
