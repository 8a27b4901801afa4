"""External histories: every small one and many random ones, compared with the definition in `tests/reference`.

One Spark job checks all of them, each as one run. The smallest are first, so that the first difference is already
minimal. The random ones have planted anomalies or random changes. The long tests (`make chaos`) check many more.
"""

from collections import Counter
from typing import Any

import pytest
from external_examples import EXAMPLES, UNPROMISED
from pyspark.sql import SparkSession

from harness.results.verdict import Verdict
from tests.reference.generate import small
from tests.reference.history import Event
from tests.reference.jepsen import NAMES as DEFINED
from tests.reference.written import history
from tests.support.external_histories import assert_expected_verdict, check, random_histories
from tests.support.findings import objects_without_kind
from tests.support.within import is_part_of

RANDOM = 500


@pytest.fixture(scope="module")
def drawn() -> list[list[Event]]:
    return [*small(), *random_histories(range(RANDOM))]


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, drawn: list[list[Event]]) -> list[Verdict]:
    return check(spark, drawn)


def test_every_verdict_agrees_with_its_definition(drawn: list[list[Event]], verdicts: list[Verdict]) -> None:
    for events, verdict in zip(drawn, verdicts, strict=True):
        assert_expected_verdict(events, verdict)


def test_a_read_uncommitted_read_proves_nothing(spark: SparkSession) -> None:
    promised = check(spark, UNPROMISED)
    anomalies = [{name for name, one in verdict.anomalies.items() if not one.allowed} for verdict in promised]
    assert anomalies == [{"precommitted-read"}, {"G1c"}, {"torn-transaction", "lost-write"}]
    uncommitted = [[event | {"isolation": "read_uncommitted"} for event in events] for events in UNPROMISED]
    assert [verdict.anomalies for verdict in check(spark, uncommitted)] == [{}, {}, {}]


def test_a_read_of_an_operation_that_is_not_ok_is_no_phantom(spark: SparkSession) -> None:
    read = ("0 ok x1@0", "1 ok ?x1@0")
    drawn = [
        history(*read, *more) for more in (["2 info ?x9@9"], ["2 fail ?x9@9"], ["2 info ?x9@9", "3 ok ?x9@9"])
    ]
    verdicts = check(spark, drawn)
    for events, verdict in zip(drawn, verdicts, strict=True):
        assert_expected_verdict(events, verdict)
    assert [(verdict.valid, "phantom" in verdict.anomalies) for verdict in verdicts] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.fixture(scope="module")
def described(spark: SparkSession) -> list[Verdict]:
    return check(spark, [events for _, _, events in EXAMPLES])


@pytest.mark.parametrize(
    ("run", "anomaly", "wanted"),
    [(run, anomaly, wanted) for run, (anomaly, wanted, _) in enumerate(EXAMPLES)],
)
def test_an_example_has_its_evidence(
    run: int, anomaly: str, wanted: dict[str, Any], described: list[Verdict]
) -> None:
    example = described[run].anomalies[anomaly].examples[0]
    assert is_part_of(wanted, example.as_json()), example
    assert not objects_without_kind(example)


def test_every_anomaly_and_every_verdict_occurs(verdicts: list[Verdict]) -> None:
    seen = Counter(name for verdict in verdicts for name in verdict.anomalies)
    assert {name for name in DEFINED if seen[name] < 10} == set()
    assert {verdict.valid for verdict in verdicts} == {True, False, "unknown"}
