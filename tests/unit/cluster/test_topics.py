"""The errors of a broker that does not create a topic: temporary ones, and mistakes of the user."""

from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse

from harness.cluster import operations
from harness.cluster.admin import RequestRefused
from harness.cluster.operations import create_topics
from harness.cluster.questions import retry
from harness.common.errors import UsageError
from harness.model.pipeline import TopicSpec

INVALID_CONFIG, TOO_FEW_BROKERS, EXISTS = 40, 38, 36


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes the broker answer with an error code. It returns the list of the broker's requests."""

    def answer_with(code: int, message: str | None = None) -> list[Any]:
        requests: list[Any] = []
        kind: Any = CreateTopicsResponse.CreatableTopicResult

        def answer(port: int, request: Any, timeout_s: float) -> Any:
            requests.append(request)
            result = kind(name="out", error_code=code, error_message=message)
            return CreateTopicsResponse(topics=[result], version=7)

        monkeypatch.setattr(operations, "send_request", answer)
        return requests

    return answer_with


SPECS = [TopicSpec("out", 3, 3, {"retention.ms": "soon"})]


def test_an_invalid_topic_setting_is_a_usage_error_without_a_retry(answers: Any) -> None:
    requests = answers(INVALID_CONFIG, "Invalid value soon for configuration retention.ms")
    with pytest.raises(
        UsageError, match=r"the topic out cannot be created.*Invalid value soon for .* retention.ms"
    ):
        retry(lambda: create_topics(1, SPECS, 5.0), "the topics", 60.0)
    assert len(requests) == 1


def test_a_temporary_error_is_a_refusal(answers: Any) -> None:
    answers(TOO_FEW_BROKERS, "only 2 brokers are registered")
    with pytest.raises(RequestRefused, match="only 2 brokers"):
        create_topics(1, SPECS, 5.0)


def test_a_topic_that_exists_already_is_returned_and_is_no_error(answers: Any) -> None:
    answers(EXISTS)
    assert create_topics(1, SPECS, 5.0) == ["out"]
