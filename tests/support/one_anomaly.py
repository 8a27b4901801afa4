"""Select the tests of one anomaly: `make check FILE=duplicate`."""

import re
from collections.abc import Sequence, Set

import pytest

from checkers.registry import CHECKERS
from tests.support.unknown_name import unknown_name

CASES = "test_cases.py"
EXAMPLES = "test_small_external_histories.py"
"""Files whose tests check one history each. One Spark job checks all histories of a file."""


def anomalies_named(name: str) -> frozenset[str]:
    """Return the anomaly of this name, or all anomalies of the checker file of this name.

    Raises:
        pytest.exit.Exception: The name is not known; the message is one sentence, the exit status 2.
    """
    if not name:
        pytest.exit("no anomaly is named; try make check FILE=duplicate", returncode=2)
    files = {checker.module: frozenset(checker.anomalies) for checker in CHECKERS}
    anomalies = {anomaly for names in files.values() for anomaly in names}
    if name in anomalies:
        return frozenset({name})
    if name not in files:
        pytest.exit(unknown_name("anomaly", name, anomalies | {"cycles"}), returncode=2)
    return files[name]


def tests_of(anomalies: Set[str], items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that run in Spark, and the light tests whose names contain the name of an anomaly.

    A case belongs to an anomaly if any case in the same file finds the anomaly, because that file has its legal
    neighbours too.
    """
    cases = {item: item.callspec.params["case"] for item in items if item.path.name == CASES}  # type: ignore[attr-defined]
    families = {case.draw.__module__ for case in cases.values() if case.finds.keys() & anomalies}
    name = re.compile(rf"(?<![a-z])({'|'.join(map(re.escape, sorted(anomalies)))})(?![a-z])", re.IGNORECASE)

    def belongs(item: pytest.Item) -> bool:
        if item in cases:
            return cases[item].draw.__module__ in families
        runs = item.path.name == EXAMPLES or item.get_closest_marker("light") is not None
        return runs and name.search(item.name.replace("_", "-")) is not None

    return list(filter(belongs, items))
