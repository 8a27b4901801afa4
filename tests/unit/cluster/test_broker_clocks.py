"""How the wall clock of a broker is measured."""

import time
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse
from kafka.protocol.producer import ProduceResponse

from harness.cluster import questions
from harness.cluster.admin import RequestRefused


def written(code: int, ahead_s: float = 0.0) -> Any:
    kind: Any = ProduceResponse.TopicProduceResponse
    partition = kind.PartitionProduceResponse(
        index=0, error_code=code, base_offset=0, log_append_time_ms=int((time.time() + ahead_s) * 1000)
    )
    return ProduceResponse(responses=[kind(name="t", partition_responses=[partition])], version=9)


def created() -> Any:
    kind: Any = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(topics=[kind(name="t", error_code=0)], version=7)


def answer_with(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[str]:
    """Let the broker give these answers. Returns the list of the requests that it got, by the names of their types."""
    left, requests = list(answers), []

    def send(port: int, request: Any, timeout_s: float) -> Any:
        requests.append(type(request).__name__)
        return left.pop(0)

    monkeypatch.setattr(questions, "send_request", send)
    return requests


def test_a_broker_with_a_wrong_clock_is_asked_only_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = answer_with(monkeypatch, written(0, ahead_s=-20.0))
    assert questions.ahead_s(1, 2) == pytest.approx(-20.0, abs=1.0)
    assert requests == ["ProduceRequest"]


def test_the_topic_is_created_if_it_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = answer_with(monkeypatch, written(questions.UNKNOWN_TOPIC_OR_PARTITION), created())
    with pytest.raises(RequestRefused, match="writing to fencepost-clock-2 was refused with error 3"):
        questions.ahead_s(1, 2)
    assert requests == ["ProduceRequest", "CreateTopicsRequest"]
