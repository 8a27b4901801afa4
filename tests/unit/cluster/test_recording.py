"""Brokers write down what they are asked as long as anybody wants them to."""

import pytest

from harness.cluster import questions
from harness.cluster.questions import ClusterQueries


def test_requests_are_recorded_until_nobody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[str] = []
    monkeypatch.setattr(
        questions.admin, "set_log_level", lambda port, broker, logger, level: levels.append(level)
    )
    asked = ClusterQueries({1: 9092}, {}, lambda broker: True)
    for on, whose in ((True, "a"), (True, "b"), (False, "a"), (False, "b"), (False, "b")):
        asked.record_requests(on, whose)
    assert levels == ["DEBUG", "DEBUG", "DEBUG", "ERROR", "ERROR"]  # asked again: a broker may have refused
