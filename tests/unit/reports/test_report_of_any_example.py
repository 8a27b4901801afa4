"""Any example, with any values, is described, drawn and escaped."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.checking.stored_runs import with_wording
from checkers.registry import CHECKERS
from harness.common.documents import encode
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import Validity
from reports.findings_text import first_example_sentence as sentence
from reports.html.page import draw
from reports.junit import junit
from tests.support.findings import findings_of
from tests.support.synthetic_store import make_verdict

NAMES = """
record records operation operations reader input offset offsets claims topic partition value fate epoch
producer_id marker_offset op name journal line end_line call_ns commit_ns return_ns outcome asked error
committed first next fates why told other_init gone_records aborted_offsets early_ms log_holds epoch_before
output_name group role
"""
KEYS = st.sampled_from(NAMES.split()) | st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
SPINE = [name for checker in CHECKERS for name in checker.anomalies]
EXAMPLES = st.dictionaries(KEYS, ANYTHING, max_size=6)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([*SPINE, "of-a-later-version"]), EXAMPLES)
def test_any_example_has_a_sentence(anomaly: str, example: dict[str, Any]) -> None:
    findings = findings_of(1, [example])
    assert encode(findings)["examples"] == [example]
    words = sentence(anomaly, with_wording(anomaly, findings) if anomaly in SPINE else findings)
    assert words.isprintable()
    assert len(words) < 5000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=KEYS,
    examples=st.lists(EXAMPLES, max_size=3),
    text=st.text(max_size=30),
    numbers=st.floats() | st.integers(),
)
def test_any_example_is_drawn(
    folder: Path, name: str, examples: list[dict[str, Any]], text: str, numbers: float
) -> None:
    verdict = make_verdict(
        Validity.INVALID,
        name=text,
        anomalies={
            name: findings_of(len(examples), examples),
            "duplicate": findings_of(1, examples, because=text),
        },
        not_checked={text: Reason(ReasonCode.INPUTS_LEFT, text)},
        stats={text: numbers},
    )
    html = draw(folder, verdict)
    HTMLParser().feed(html)
    html.encode()
    ElementTree.fromstring(junit([(verdict, 1.0)]).encode())
