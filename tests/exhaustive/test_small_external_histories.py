"""External histories: every small one and many random ones, compared with the definition in `tests/reference`.

One Spark job checks all of them, each as one run. The smallest are first, so that the first difference is already
minimal. The random ones have planted anomalies or random changes. The long tests (`make chaos`) check many more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pytest
from external_examples import EXAMPLES, UNPROMISED
from pyspark.sql import SparkSession

from checkers.histories import table
from harness.results.verdict import Verdict
from tests.reference.generate import small
from tests.reference.history import Event
from tests.reference.jepsen import NAMES as DEFINED
from tests.reference.written import history
from tests.support.external_histories import assert_expected_verdict, check, random_histories
from tests.support.findings import objects_without_kind
from tests.support.within import is_part_of

RANDOM = 500


UNCOMMITTED = [[event | {"isolation": "read_uncommitted"} for event in events] for events in UNPROMISED]
OF_NO_RECORD = [
    history("0 ok x1@0", "1 ok ?x1@0", *more)
    for more in (["2 info ?x9@9"], ["2 fail ?x9@9"], ["2 info ?x9@9", "3 ok ?x9@9"])
]
"""In each history, an operation that is not ok reads a record that nobody sent. In the last one, an ok operation reads
it too.
"""


@pytest.fixture(scope="module")
def groups() -> Mapping[str, list[list[Event]]]:
    """The histories of each test, by the name of the group."""
    return {
        "drawn": [*small(), *random_histories(range(RANDOM))],
        "promised": UNPROMISED,
        "uncommitted": UNCOMMITTED,
        "of no record": OF_NO_RECORD,
        "examples": [events for _, _, events in EXAMPLES],
    }


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, groups: Mapping[str, list[list[Event]]]) -> Mapping[str, Sequence[Verdict]]:
    """The verdicts of each group."""
    checked = iter(check(spark, [events for group in groups.values() for events in group]))
    return {name: list(islice(checked, len(group))) for name, group in groups.items()}


def test_the_verdicts_of_many_tasks_in_several_processes_agree_with_their_definition(
    spark: SparkSession, groups: Mapping[str, list[list[Event]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tests of this file check so few rows that a single task does it, in the process of the tests."""
    monkeypatch.setattr(table, "HERE_BYTES", 0)
    monkeypatch.setattr(table, "LEAST_TASK_BYTES", 1)
    histories = [*groups["drawn"][-RANDOM:], *groups["examples"]]
    for events, verdict in zip(histories, check(spark, histories), strict=True):
        assert_expected_verdict(events, verdict)


@pytest.mark.parametrize("group", ["drawn", "of no record"])
def test_every_verdict_agrees_with_its_definition(
    group: str, groups: Mapping[str, list[list[Event]]], verdicts: Mapping[str, Sequence[Verdict]]
) -> None:
    for events, verdict in zip(groups[group], verdicts[group], strict=True):
        assert_expected_verdict(events, verdict)


def test_a_read_uncommitted_read_proves_nothing(verdicts: Mapping[str, Sequence[Verdict]]) -> None:
    anomalies = [
        {name for name, one in verdict.anomalies.items() if not one.allowed}
        for verdict in verdicts["promised"]
    ]
    assert anomalies == [{"precommitted-read"}, {"G1c"}, {"torn-transaction", "lost-write"}]
    assert [verdict.anomalies for verdict in verdicts["uncommitted"]] == [{}, {}, {}]


def test_a_read_of_an_operation_that_is_not_ok_is_no_phantom(
    verdicts: Mapping[str, Sequence[Verdict]],
) -> None:
    assert [(verdict.valid, "phantom" in verdict.anomalies) for verdict in verdicts["of no record"]] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("run", "anomaly", "wanted"),
    [(run, anomaly, wanted) for run, (anomaly, wanted, _) in enumerate(EXAMPLES)],
)
def test_an_example_has_its_evidence(
    run: int, anomaly: str, wanted: dict[str, Any], verdicts: Mapping[str, Sequence[Verdict]]
) -> None:
    example = verdicts["examples"][run].anomalies[anomaly].examples[0]
    assert is_part_of(wanted, example.as_json()), example
    assert not objects_without_kind(example)


def test_every_anomaly_and_every_verdict_occurs(verdicts: Mapping[str, Sequence[Verdict]]) -> None:
    seen = Counter(name for verdict in verdicts["drawn"] for name in verdict.anomalies)
    assert {name for name in DEFINED if seen[name] < 10} == set()
    assert {verdict.valid for verdict in verdicts["drawn"]} == {True, False, "unknown"}
