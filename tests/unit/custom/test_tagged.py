"""A pipeline on a shared cluster: every name has the tag, except in the user's functions."""

from pathlib import Path

import pytest

from harness.common.errors import UsageError
from harness.model.expectation import InputRecord
from harness.settings.options import Options
from tests.support.user_pipeline import FUNCTIONS, MINIMAL, read_pipeline
from workloads.custom.names import placeholder_values, require_names_passed, tagged
from workloads.custom.pipeline import CustomPipeline

NAMED = MINIMAL.replace('["true"]', '["true", "{topic:purchases}", "{topic:invoices}"]\ntransactions = false')
GROUPED = MINIMAL.replace(
    'command = ["true"]', 'group = "g"\ntransactional_id = "b-{instance}"\ncommand = ["true", "{prefix}"]'
)
EXPECT = '\n[expect]\noutputs = "expect.py:outputs"\ncorrelate = "expect.py:about"\n'
UNTAGGED_TOPICS = """
import json


def purchase(rng, n):
    return "c", json.dumps({"id": n})


def outputs(topic, key, value, headers):
    assert topic == "purchases", topic
    return [("invoices", key, value)]


def about(topic, key, value, headers):
    assert topic in ("purchases", "invoices"), topic
    return json.loads(value)["id"]
"""


def test_every_name_of_a_run_begins_with_its_tag(tmp_path: Path) -> None:
    spec = CustomPipeline(read_pipeline(tmp_path, GROUPED)).spec(Options(), "run-7")
    (stage,) = spec.stages
    assert [topic.name for topic in spec.topics] == ["run-7-purchases", "run-7-invoices"]
    assert (stage.reads, stage.writes, stage.group) == (("run-7-purchases",), ("run-7-invoices",), "run-7-g")
    assert set(stage.transactional_ids.values()) == {"run-7-b-1", "run-7-b-2", "run-7-b-3"}
    (untagged,) = CustomPipeline(read_pipeline(tmp_path, GROUPED)).spec(Options()).stages
    assert (untagged.reads, untagged.group) == (("purchases",), "g")


def test_a_tagged_topic_keeps_its_settings(tmp_path: Path) -> None:
    text = f"{NAMED}\n[topics.invoices]\npartitions = 7\n"
    spec = CustomPipeline(read_pipeline(tmp_path, text)).spec(Options(), "run-7")
    assert {topic.name: topic.partitions for topic in spec.topics}["run-7-invoices"] == 7


def test_functions_of_the_user_get_topic_names_without_the_tag(tmp_path: Path) -> None:
    pipeline = CustomPipeline(read_pipeline(tmp_path, NAMED + EXPECT, UNTAGGED_TOPICS)).tagged("run-7")
    expectation = pipeline.expectation()
    record = InputRecord("run-7-purchases", b"c", b'{"id": 3}')
    (due,) = expectation.expected_outputs(record)
    assert (due.topic, due.stage, due.correlation_key) == ("run-7-invoices", "bill", "3")
    key = expectation.correlation_key(InputRecord("run-7-invoices", b"c", b'{"id": 3}'))
    assert key is not None and key.key == "3"
    assert [feed.topic for feed in pipeline.feeds()] == ["run-7-purchases"]


def test_placeholders_have_the_tagged_names(tmp_path: Path) -> None:
    tagged_description = tagged(read_pipeline(tmp_path, NAMED), "run-7")
    assert placeholder_values(tagged_description) == {
        "topic:purchases": "run-7-purchases",
        "topic:invoices": "run-7-invoices",
        "prefix": "run-7-",
    }
    assert placeholder_values(read_pipeline(tmp_path, NAMED))["prefix"] == ""


@pytest.mark.parametrize("text", [NAMED, GROUPED])
def test_a_pipeline_with_a_placeholder_for_each_name_may_share_a_cluster(text: str, tmp_path: Path) -> None:
    require_names_passed(read_pipeline(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (MINIMAL, "{topic:purchases}"),
        (NAMED.replace(', "{topic:invoices}"', ""), "{topic:invoices}"),
        (NAMED.replace("command", 'group = "g"\ncommand'), "{group}"),
        (
            NAMED.replace("transactions = false", 'transactional_id = "b-{instance}"'),
            "{transactional_id}",
        ),
        (NAMED.replace("transactions = false", ""), "{prefix}"),
        (
            NAMED.replace("transactions = false", 'group = "g"\nenv = { X = "{topic:invoices}" }'),
            "{group}",
        ),
    ],
)
def test_a_pipeline_without_one_of_the_placeholders_may_not_share_a_cluster(
    text: str, missing: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"write {missing} in its command or env"):
        require_names_passed(read_pipeline(tmp_path, text))


def test_a_placeholder_for_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    text = NAMED.replace("{topic:invoices}", "{topic:invoice}")
    with pytest.raises(UsageError, match=r'has {topic:invoice} in .*bill: .*did you mean "invoices"'):
        read_pipeline(tmp_path, text, FUNCTIONS)
