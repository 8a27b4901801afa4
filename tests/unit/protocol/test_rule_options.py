"""A rule is read from the command line or a file, and what is wrong with it is said in one sentence."""

from pathlib import Path

import pytest

import fencepost
from harness.common.errors import UsageError
from harness.model.kafka_protocol import error_codes
from harness.protocol.rule_checks import possible_errors, require_possible
from harness.protocol.rule_options import parse_rule, read_rules, rule_of, rule_text, rules_of
from harness.protocol.rules import Action, Release, Selector, When
from harness.protocol.schemas import Schemas
from tests.support.protocol_schemas import small_schemas

FILE = """
[[rule]]
who = { transactional_id = "shop-2" }
api = "EndTxn"
nth = 3
action = "error"
error = "NOT_COORDINATOR"
when = "after"

[[rule]]
api = "EndTxn"
fields = { Committed = false }
action = "hold"
release = { after = ["EndTxn response", "AddOffsetsToTxn"], after_s = 0.5 }
"""


@pytest.fixture
def schemas() -> Schemas:
    return small_schemas()


def test_a_rule_for_the_ends_of_transactions_says_which_in_the_words_of_kafka() -> None:
    assert str(Selector("EndTxn", fields={"Committed": False})) == "EndTxn(abort) requests"
    others = Selector("EndTxn", transactional_id="shop-1", fields={"Committed": True, "ProducerEpoch": 2})
    assert str(others) == "EndTxn(commit) requests of shop-1 with ProducerEpoch = 2"


def test_a_file_and_the_command_line_give_the_same_rule(tmp_path: Path, schemas: Schemas) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(FILE)
    first, second = (rule_of(table).rule for table in read_rules(file))
    require_possible(first, schemas)
    require_possible(second, schemas)
    assert first.select == Selector("EndTxn", transactional_id="shop-2")
    assert (first.nth, first.action, first.error, first.when) == (
        3,
        Action.ERROR,
        "NOT_COORDINATOR",
        When.AFTER,
    )
    assert second.select == Selector("EndTxn", fields={"Committed": False})
    assert second.release == Release((Selector("EndTxn", "response"), Selector("AddOffsetsToTxn")), 0.5)
    for table in read_rules(file):
        assert parse_rule(rule_text(table)) == table
    assert rules_of(str(file)) == tuple(map(rule_text, read_rules(file)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop", '"drop" is no NAME=VALUE'),
        ("api=EndTxn,action=drop,api=Produce", "api is given twice; write one --rule for each rule"),
        ("api=EndTxn", "a rule: it needs action=NAME: one of hold, delay"),
        ("action=drop", "a rule: it needs api=NAME"),
        ("api=EndTransaction,action=lose", 'a rule: there is no API "EndTransaction"; did you mean EndTxn?'),
        ("api=endtxn,tims=2", 'a rule: there is no API "endtxn"; did you mean EndTxn?'),
        (
            "api=EndTxn,action=hold,release.after=Foo",
            'a rule: there is no API "Foo"; write one of AddOffsetsToTxn',
        ),
        ("api=Vote,action=drop", 'a rule: Kafka 0 has no API "Vote"'),
        ("api=EndTxn,action=lose", "action must be one of hold, delay"),
        ("api=EndTxn,action=error", "a rule: action=error needs error="),
        ("api=EndTxn,action=delay", "a rule: action=delay needs delay_s="),
        ("api=EndTxn,action=delay,delay_s=0", "delay_s must be a number above 0"),
        ("api=EndTxn,action=hold,client=stall,release.after_s=0", "release.after_s is 0, so nothing is held"),
        (
            "api=EndTxn,message=response,action=hold,release.after_s=0",
            "release.after_s is 0, so nothing is held; write a number above 0",
        ),
        ("api=EndTxn,action=drop,nth=inf", "nth is inf; write a number of at most 9223372036854775807"),
        ("api=EndTxn,action=drop,nth=9223372036854775808", "nth is 9223372036854775808; write a number"),
        ("api=EndTxn,action=delay,delay_s=nan", "delay_s is nan; write a number of at most"),
        (
            f"api=EndTxn,action=drop,client_id={'x' * 1001}",
            "client_id has 1,001 characters; write at most 1,000",
        ),
        ("api=EndTxn,action=edit", "a rule: action=edit needs set.FIELD="),
        ("api=EndTxn,action=error,error=NOT_COORDINATR", "did you mean NOT_COORDINATOR"),
        (
            "api=EndTxn,action=error,error=OFFSET_OUT_OF_RANGE",
            "a broker never answers EndTxn with OFFSET_OUT_OF_RANGE",
        ),
        ("api=EndTxn,action=drop,fields.Comitted=true", "did you mean Committed"),
        ("api=EndTxn,action=drop,fields.committed=true", "did you mean Committed"),
        ("api=EndTxn,action=edit,set.NoSuch=1", 'EndTxnRequest has no field "NoSuch"'),
        ("api=EndTxn,action=drop,since=begin", 'since must be "start"; or write start_s for a later time'),
        ("api=EndTxn,action=drop,since=start,start_s=3", "since=start cannot be joined with start_s"),
        ("api=EndTxn,action=drop,nth=0", "nth must be a whole number of at least 1, not 0"),
        ("api=EndTxn,action=drop,times=1.5", "times must be a whole number of at least 1, not 1.5"),
        ("api=EndTxn,action=drop,tims=2", "did you mean times"),
        ("api=EndTxn,message=answer,action=drop", "message must be one of request, response"),
        ("api=EndTxn,message=response,action=swap", "swap is for requests"),
        ("api=EndTxn,action=hold,release.after=EndTxn answer", 'release.after is "EndTxn answer"'),
        ("api=EndTxn,action=hold,release.after=EndTxn|addoffsets", 'no API "addoffsets"; did you mean'),
        ("api=EndTxn,action=drop,client=gone", "client must be one of reset, stall"),
        ("api=EndTxn,action=drop,links=all", 'links must be "client", or "peer" for'),
        (
            "api=EndTxn,action=drop,probability=2",
            "probability must be a number above 0, and at most 1, not 2",
        ),
        ("api=EndTxn,action=drop,probability=0", "probability must be a number above 0"),
        ("api=EndTxn,action=drop,hold_s=0", "hold_s must be a number above 0, not 0"),
        ("api=EndTxn,action=drop,error_seen=NONE", "error_seen is for responses, and requests have no error"),
        (
            "api=EndTxn,message=response,action=drop,error_seen=OFFSET_OUT_OF_RANGE",
            "a broker never answers EndTxn with OFFSET_OUT_OF_RANGE",
        ),
        ("api=EndTxn,message=response,action=drop,error_seen=NO_ERROR", 'there is no error "NO_ERROR"'),
        ("api=EndTxn,message=response,action=close,when=after", "when is for requests"),
        (
            "api=EndTxn,action=drop,when=after",
            "when is for action=error or close; leave it out with action=drop",
        ),
        ("api=EndTxn,action=drop,delay_s=1", "delay_s is for action=delay"),
        ("api=EndTxn,action=drop,error=NOT_COORDINATOR", "error is for action=error"),
        ("api=EndTxn,action=drop,set.ProducerEpoch=1", "set.ProducerEpoch is for action=edit"),
        (
            "api=EndTxn,action=drop,release.after=EndTxn",
            "release.after is for action=hold or duplicate or swap",
        ),
        ("api=EndTxn,action=delay,delay_s=1,client=stall", "client is for action=hold or drop"),
        ("api=EndTxn,action=drop,group=g", "a rule: EndTxn names no group: leave out group"),
        (
            "api=WriteTxnMarkers,action=drop,transactional_id=shop-1",
            "WriteTxnMarkers names no transactional id: leave out transactional_id",
        ),
        (
            "api=EndTxn,message=response,action=hold,client=stall",
            "the client of a held response waits, or gives up by itself; leave it out",
        ),
        ("api=EndTxn,action=drop,fields.Committed=1", "fields.Committed is 1; write true or false"),
        ("api=EndTxn,action=drop,fields.ProducerEpoch=x", "fields.ProducerEpoch is x; write a whole number"),
        ("api=EndTxn,action=edit,set.ProducerEpoch=true", "set.ProducerEpoch is True; write a whole number"),
        ("api=EndTxn,action=edit,set.ProducerEpoch=40000", "a whole number from -32768 to 32767"),
        ("api=EndTxn,action=edit,set.TransactionalId=true", "set.TransactionalId is True; write a text"),
        (
            "api=Produce,action=drop,fields.TopicData=out",
            "TopicData is a structure; write one of its fields: fields.TopicData.Name",
        ),
        (
            "api=Produce,action=edit,set.TopicData.PartitionData.Records=x",
            "a field of type records cannot be written in a rule",
        ),
        (
            "api=EndTxn,action=hold,release.after=WriteTxnMarkers",
            "WriteTxnMarkers names no transactional id, so it never releases EndTxn",
        ),
        ("api=EndTxn,action=hold,release.state=Complete", "did you mean CompleteAbort"),
        (
            "api=EndTxn,action=hold,release.state=Ongoing,release.after=EndTxn",
            "release.state cannot be joined with release.after",
        ),
        (
            "api=WriteTxnMarkers,action=hold,release.state=Ongoing",
            "WriteTxnMarkers names no transactional id: leave out release.state",
        ),
    ],
)
def test_a_rule_that_is_wrong_gets_one_sentence(text: str, message: str, schemas: Schemas) -> None:
    with pytest.raises(UsageError) as refused:
        require_possible(rule_of(parse_rule(text)).rule, schemas)
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("[[rule", "it is not TOML"),
        ("rule = 3", "it has no [[rule]]"),
        ("rule = ['EndTxn']", "it has no [[rule]]"),
        ("[[rule]]\nnth = " + "9" * 5000, "it is not TOML"),
        (
            "[[rule]]\nwho = { nth = 3 }",
            "who has nth; it can have client_id, transactional_id, group",
        ),
        (
            "[[rule]]\ntransactional_id = 'a'\nwho = { transactional_id = 'b' }",
            "transactional_id is given twice; leave one of them out",
        ),
        ("[[rule]]\n'fields.A' = 1\nfields = { A = 2 }", "fields.A is given twice"),
        ("[[rule]]\napi = 'EndTxn'\naction = ['drop']", "action is ['drop']; write a text"),
    ],
)
def test_a_file_that_is_wrong_gets_one_sentence(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as refused:
        read_rules(file)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "api=EndTxn,action=hold,release.after_s=0",  # its client is reset, and it is delivered after that
        "api=EndTxn,action=duplicate,release.after_s=0",
        "api=EndTxn,action=hold,client=stall,release.after=EndTxn,release.after_s=0",
    ],
)
def test_a_release_at_once_is_a_rule_where_it_has_an_effect(text: str) -> None:
    assert rule_of(parse_rule(text)).rule.release.after_s == 0.0


def test_a_rule_in_python_is_the_text_of_the_command_line() -> None:
    text = fencepost.rule(
        "EndTxn", "hold", nth=2, fields={"Committed": False}, release={"after": "EndTxn response"}
    )
    assert text == "api=EndTxn,action=hold,nth=2,fields.Committed=false,release.after=EndTxn response"
    assert rule_of(parse_rule(text)).rule.select.fields == {"Committed": False}
    text = fencepost.rule("EndTxn", "hold", release={"state": ["CompleteAbort", "Ongoing"]})
    assert rule_of(parse_rule(text)).rule.release == Release(states=("CompleteAbort", "Ongoing"))


def test_every_possible_error_is_an_error_of_kafka() -> None:
    assert {error for errors in possible_errors().values() for error in errors} <= error_codes().keys()
