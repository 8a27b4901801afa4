import pytest

from harness.cluster import questions
from harness.cluster.questions import ClusterQueries


def test_requests_are_recorded_until_every_requester_has_turned_it_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels: list[str] = []
    monkeypatch.setattr(
        questions.admin, "set_log_level", lambda port, broker, logger, level: levels.append(level)
    )
    queries = ClusterQueries({1: 9092}, {}, lambda broker: True)
    for on, requester in ((True, "a"), (True, "b"), (False, "a"), (False, "b"), (False, "b")):
        queries.record_requests(on, requester)
    assert levels == [
        "DEBUG",
        "DEBUG",
        "DEBUG",
        "ERROR",
        "ERROR",
    ]  # the level is set again: a broker may have refused it before
