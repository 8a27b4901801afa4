"""What a broker says of a topic that is to be made: refused for now, or for ever."""

from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse

from harness.cluster import topics
from harness.cluster.admin import RequestRefused
from harness.cluster.questions import retry
from harness.cluster.topics import create_topics
from harness.common.errors import UsageError
from harness.model.pipeline import TopicSpec

INVALID_CONFIG, TOO_FEW_BROKERS, EXISTS = 40, 38, 36


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the broker answer with these codes; gives how often it was asked."""

    def to_answer(code: int, words: str | None = None) -> list[Any]:
        asked: list[Any] = []
        kind: Any = CreateTopicsResponse.CreatableTopicResult

        def answer(port: int, request: Any, timeout_s: float) -> Any:
            asked.append(request)
            told = kind(name="out", error_code=code, error_message=words)
            return CreateTopicsResponse(topics=[told], version=7)

        monkeypatch.setattr(topics, "send_request", answer)
        return asked

    return to_answer


WANTED = [TopicSpec("out", 3, 3, {"retention.ms": "soon"})]


def test_a_setting_that_no_broker_takes_is_the_users_mistake_and_is_not_tried_again(answers: Any) -> None:
    asked = answers(INVALID_CONFIG, "Invalid value soon for configuration retention.ms")
    with pytest.raises(
        UsageError, match=r"the topic out cannot be created.*Invalid value soon for .* retention.ms"
    ):
        retry(lambda: create_topics(1, WANTED, 5.0), "the topics", 60.0)
    assert len(asked) == 1


def test_what_may_pass_is_refused_for_now(answers: Any) -> None:
    answers(TOO_FEW_BROKERS, "only 2 brokers are registered")
    with pytest.raises(RequestRefused, match="only 2 brokers"):
        create_topics(1, WANTED, 5.0)


def test_a_topic_that_is_there_is_left_as_it_is(answers: Any) -> None:
    answers(EXISTS)
    assert create_topics(1, WANTED, 5.0) == ["out"]
