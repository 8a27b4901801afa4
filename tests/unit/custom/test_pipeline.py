"""A user's pipeline is told to the others as facts, which are those of its file and of the run's options."""

from pathlib import Path

import pytest

from harness.model.goals import optional_abort_goal, transactions_goal
from harness.model.pipeline import TOPIC_CONFIG, PipelineSpec, RecordIdentity
from harness.model.vocabulary import Guarantee
from harness.settings.options import Options
from tests.support.user_pipeline import EXPECTING, MINIMAL, described
from workloads.custom.expectation import CustomExpectation, NothingExpected
from workloads.custom.pipeline import CustomPipeline

OPTIONS = Options(partitions=4, brokers=3)
TWO = """
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
    return CustomPipeline(described(folder, text))


def facts(folder: Path, text: str = TWO, guarantee: Guarantee = Guarantee.EXACTLY_ONCE) -> PipelineSpec:
    return pipeline(folder, text.replace("GUARANTEE", f'guarantee = "{guarantee}"')).facts(OPTIONS)


def test_it_is_loaded_from_its_file(tmp_path: Path) -> None:
    file = described(tmp_path, TWO.replace("GUARANTEE", "")).file
    loaded = CustomPipeline.load(str(file))
    assert loaded.name == "billing"
    assert loaded.summary == "purchases + refunds -> invoices; invoices -> totals"
    assert (loaded.written, loaded.read) == ({"invoices", "totals"}, {"purchases", "refunds", "invoices"})


def test_its_topics_are_those_of_its_inputs_first_with_what_is_their_own(tmp_path: Path) -> None:
    topics = facts(tmp_path).topics
    assert [(one.name, one.partitions, one.identity) for one in topics] == [
        ("refunds", 4, RecordIdentity.JOURNAL),
        ("purchases", 4, RecordIdentity.JOURNAL),
        ("invoices", 6, RecordIdentity.CONTENT),
        ("totals", 4, RecordIdentity.CONTENT),
    ]
    plain = {**TOPIC_CONFIG, "min.insync.replicas": "2"}
    assert [one.config for one in topics] == [
        plain,
        plain,
        {**plain, "cleanup.policy": "compact"},
        plain,
    ]
    assert {one.replication for one in topics} == {3}


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        (MINIMAL, RecordIdentity.NONE),
        (EXPECTING, RecordIdentity.CONTENT),
        (f'{EXPECTING}correlate = "key"', RecordIdentity.CORRELATION),
        (f'{EXPECTING}correlate = "expect.py:about"', RecordIdentity.CORRELATION),
    ],
)
def test_how_an_output_is_known_follows_from_how_it_is_joined(
    text: str, identity: RecordIdentity, tmp_path: Path
) -> None:
    assert [one.identity for one in facts(tmp_path, text).topics] == [RecordIdentity.JOURNAL, identity]


def test_where_the_last_record_of_a_key_is_judged_no_other_is_joined_to_an_input(tmp_path: Path) -> None:
    text = (
        TWO.replace("GUARANTEE", "").replace("transactions = false", 'group = "c"') + 'final = ["totals"]\n'
    )
    told = {topic.name: topic.identity for topic in pipeline(tmp_path, text).facts(OPTIONS).topics}
    assert (told["invoices"], told["totals"]) == (RecordIdentity.CONTENT, RecordIdentity.FINAL)
    tagged = {topic.name: topic.identity for topic in pipeline(tmp_path, text).facts(OPTIONS, "t-1").topics}
    assert tagged["t-1-totals"] is RecordIdentity.FINAL


def test_its_stages_keep_no_journal_and_come_to_no_steps(tmp_path: Path) -> None:
    found = facts(tmp_path)
    bill, count = found.stages
    assert not found.journaled and not bill.journaled and not count.journaled
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
def test_what_it_promises_says_what_is_permitted_and_whether_transactions_must_be_seen(
    guarantee: Guarantee, allowed: tuple[str, ...], tmp_path: Path
) -> None:
    found = facts(tmp_path, guarantee=guarantee)
    exactly = guarantee is Guarantee.EXACTLY_ONCE
    assert (found.guarantee, found.allowed) == (guarantee, allowed)
    assert found.goals == ((transactions_goal(), optional_abort_goal()) if exactly else ())
    assert found.stages[0].txn_timeout_ms == (20_000 if exactly else 0)


def test_a_pipeline_that_needs_no_transactions_need_not_commit_one(tmp_path: Path) -> None:
    without = TWO.replace("transaction_timeout_s = 20", "transactions = false").replace(
        'transactional_id = "billing-{instance}"', ""
    )
    assert facts(tmp_path, without).goals == ()


def test_its_facts_are_the_same_when_they_are_read_from_a_store(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert PipelineSpec.from_table(found.as_table()) == found


def test_it_feeds_its_inputs_and_expects_what_it_says(tmp_path: Path) -> None:
    two = pipeline(tmp_path, TWO.replace("GUARANTEE", ""))
    assert [(feed.topic, feed.share) for feed in two.feeds()] == [("refunds", 2.0), ("purchases", 1.0)]
    assert isinstance(two.expectation(), CustomExpectation)
    assert isinstance(pipeline(tmp_path, MINIMAL).expectation(), NothingExpected)
