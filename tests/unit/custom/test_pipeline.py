"""The spec of a custom pipeline follows from its file and from the options of the run."""

from pathlib import Path

import pytest

from harness.model.pipeline import TOPIC_CONFIG, PipelineSpec, RecordIdentity
from harness.model.promises import optional_abort_goal, transactions_goal
from harness.model.vocabulary import Guarantee
from harness.settings.options import Options
from tests.support.user_pipeline import MINIMAL, WITH_OUTPUTS, read_pipeline
from workloads.custom.expectation import CustomExpectation, NothingExpected
from workloads.custom.pipeline import CustomPipeline

OPTIONS = Options(partitions=4, brokers=3)
TWO_STAGES = """
name = "billing"
GUARANTEE
[[stage]]
name = "bill"
reads = ["purchases", "refunds"]
writes = ["invoices"]
command = ["true"]
instances = 2
group = "billing"
transactional_id = "billing-{instance}"
transaction_timeout_s = 20
ordered = true

[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["true"]
instances = 1
transactions = false

[topics.invoices]
partitions = 6
config = { "cleanup.policy" = "compact" }

[inputs.refunds]
make = "expect.py:purchase"
share = 2

[inputs.purchases]
make = "expect.py:purchase"

[expect]
outputs = "expect.py:outputs"
"""


def pipeline(folder: Path, text: str) -> CustomPipeline:
    return CustomPipeline(read_pipeline(folder, text))


def spec_of(
    folder: Path, text: str = TWO_STAGES, guarantee: Guarantee = Guarantee.EXACTLY_ONCE
) -> PipelineSpec:
    return pipeline(folder, text.replace("GUARANTEE", f'guarantee = "{guarantee}"')).spec(OPTIONS)


def test_a_custom_pipeline_is_loaded_from_its_file(tmp_path: Path) -> None:
    file = read_pipeline(tmp_path, TWO_STAGES.replace("GUARANTEE", "")).file
    loaded = CustomPipeline.load(str(file))
    assert loaded.name == "billing"
    assert loaded.summary == "purchases + refunds -> invoices; invoices -> totals"
    assert (loaded.written, loaded.read) == ({"invoices", "totals"}, {"purchases", "refunds", "invoices"})


def test_input_topics_come_first_and_topics_have_their_own_settings(tmp_path: Path) -> None:
    topics = spec_of(tmp_path).topics
    assert [(topic.name, topic.partitions, topic.identity) for topic in topics] == [
        ("refunds", 4, RecordIdentity.JOURNAL),
        ("purchases", 4, RecordIdentity.JOURNAL),
        ("invoices", 6, RecordIdentity.CONTENT),
        ("totals", 4, RecordIdentity.CONTENT),
    ]
    plain = {**TOPIC_CONFIG, "min.insync.replicas": "2"}
    assert [topic.config for topic in topics] == [
        plain,
        plain,
        {**plain, "cleanup.policy": "compact"},
        plain,
    ]
    assert {topic.replication for topic in topics} == {3}


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        (MINIMAL, RecordIdentity.NONE),
        (WITH_OUTPUTS, RecordIdentity.CONTENT),
        (f'{WITH_OUTPUTS}correlate = "key"', RecordIdentity.CORRELATION),
        (f'{WITH_OUTPUTS}correlate = "expect.py:about"', RecordIdentity.CORRELATION),
    ],
)
def test_the_identity_of_outputs_follows_from_correlate(
    text: str, identity: RecordIdentity, tmp_path: Path
) -> None:
    assert [topic.identity for topic in spec_of(tmp_path, text).topics] == [RecordIdentity.JOURNAL, identity]


def test_a_topic_in_final_has_the_identity_final(tmp_path: Path) -> None:
    text = (
        TWO_STAGES.replace("GUARANTEE", "").replace("transactions = false", 'group = "c"')
        + 'final = ["totals"]\n'
    )
    identities = {topic.name: topic.identity for topic in pipeline(tmp_path, text).spec(OPTIONS).topics}
    assert (identities["invoices"], identities["totals"]) == (RecordIdentity.CONTENT, RecordIdentity.FINAL)
    tagged = {topic.name: topic.identity for topic in pipeline(tmp_path, text).spec(OPTIONS, "t-1").topics}
    assert tagged["t-1-totals"] is RecordIdentity.FINAL


def test_stages_of_a_custom_pipeline_have_no_journals_and_no_steps(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    bill, count = spec.stages
    assert not spec.journaled and not bill.journaled and not count.journaled
    assert (bill.steps, bill.zombie_steps) == ((), ())
    assert (bill.reads, bill.writes, bill.group, bill.ordered) == (
        ("purchases", "refunds"),
        ("invoices",),
        "billing",
        True,
    )
    assert bill.workers == ("bill-1", "bill-2")
    assert bill.transactional_ids == {"bill-1": "billing-1", "bill-2": "billing-2"}
    assert bill.txn_timeout_ms == 20_000
    assert (count.workers, count.group, count.transactional_ids, count.txn_timeout_ms) == (
        ("count-1",),
        None,
        {},
        0,
    )


@pytest.mark.parametrize(
    ("guarantee", "allowed"),
    [
        (Guarantee.EXACTLY_ONCE, ()),
        (
            Guarantee.AT_LEAST_ONCE,
            ("reprocessed-input", "offset-output-mismatch", "group-offset-regression"),
        ),
        (Guarantee.AT_MOST_ONCE, ("lost-input", "offset-output-mismatch", "group-offset-regression")),
    ],
)
def test_the_guarantee_decides_the_allowed_anomalies_and_the_goals(
    guarantee: Guarantee, allowed: tuple[str, ...], tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, guarantee=guarantee)
    exactly_once = guarantee is Guarantee.EXACTLY_ONCE
    assert (spec.guarantee, spec.allowed) == (guarantee, allowed)
    assert spec.goals == ((transactions_goal(), optional_abort_goal()) if exactly_once else ())
    assert spec.stages[0].txn_timeout_ms == (20_000 if exactly_once else 0)


def test_a_pipeline_without_transactions_has_no_goals(tmp_path: Path) -> None:
    without = TWO_STAGES.replace("transaction_timeout_s = 20", "transactions = false").replace(
        'transactional_id = "billing-{instance}"', ""
    )
    assert spec_of(tmp_path, without).goals == ()


def test_the_spec_survives_the_round_trip_through_tables(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    assert PipelineSpec.from_table(spec.as_table()) == spec


def test_feeds_and_expectation_follow_from_the_file(tmp_path: Path) -> None:
    two = pipeline(tmp_path, TWO_STAGES.replace("GUARANTEE", ""))
    assert [(feed.topic, feed.share) for feed in two.feeds()] == [("refunds", 2.0), ("purchases", 1.0)]
    assert isinstance(two.expectation(), CustomExpectation)
    assert isinstance(pipeline(tmp_path, MINIMAL).expectation(), NothingExpected)
