"""Rules and protocol faults that can never act are refused before the run."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.registry import command_line
from fencepost.runs.planning import draw_schedule
from fencepost.runs.protocol_rules import require_known_messages
from harness.common.errors import UsageError
from harness.environment.kafka import KafkaDistribution
from harness.settings.options import Options
from tests.support.protocol_schemas import make_jar
from tests.support.user_pipeline import MINIMAL, read_pipeline
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS

ROOM_S = {"time_limit_s": 60.0, "seed": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"client": "java", "nemesis": ("late-add-partitions",)},
            "late-add-partitions would never act, because under transaction version 2 the Java client sends no",
        ),
        ({"client": "java:4.1.2", "nemesis": ("late-add-partitions",)}, "--set transaction-version=1"),
        ({"client": "java:3.9.2", "nemesis": ("late-add-partitions",)}, ""),
        ({"client": "java", "kafka": "3.9.2", "nemesis": ("late-add-partitions",)}, ""),
        ({"client": "java", "transaction_version": 1, "nemesis": ("late-add-partitions",)}, ""),
        ({"nemesis": ("late-add-partitions",)}, ""),
        ({"client": "java", "nemesis": ("lost-response@AddOffsetsToTxn",)}, "lost-response would never act"),
        ({"client": "java", "nemesis": ("late-end-txn", "late-offset-commit")}, ""),
        ({"nemesis": ("late-marker",)}, ""),
        (
            {"nemesis": ("late-produce",)},
            (
                "it lasts 6 s, and a client gives up its records after the transaction time-out, 30 s: choose "
                "--set txn-timeout=3, or write a longer hold_s into a --schedule"
            ),
        ),
        ({"nemesis": ("late-produce",), "txn_timeout_s": 3.0}, ""),
        ({"nemesis": ("lost-response@WriteTxnMarkers",)}, "only brokers send WriteTxnMarkers"),
        ({"rule": ("api=WriteTxnMarkers,action=drop",)}, "rule would never act, because only brokers send"),
        ({"rule": ("api=WriteTxnMarkers,action=drop,links=peer",)}, ""),
        ({"rule": ("api=EndTxn,action=drop,links=peer",)}, "a broker sends no EndTxn to other brokers"),
        (
            {"rule": ("api=ConsumerGroupHeartbeat,action=drop",)},
            "in the classic group protocol a client sends no",
        ),
        (
            {"rule": ("api=JoinGroup,action=drop",), "group_protocol": "consumer"},
            "in the consumer group protocol",
        ),
        (
            {"rule": ("api=EndTxn,action=hold,release.after=AddOffsetsToTxn",), "client": "java"},
            "the Java client sends no AddOffsetsToTxn",
        ),
        ({"rule": ("api=EndTxn,action=hold,release.after=AddOffsetsToTxn|EndTxn",), "client": "java"}, ""),
        ({"rule": ("api=EndTxn,action=drop,start_s=60",)}, "start_s is 60, and the run ends after 60 s"),
        (
            {"rule": ("api=EndTxn,action=drop,transactional_id=nope",)},
            'transactional_id is "nope", and no stage of shop has such a name: write one of payments-1, payments-2',
        ),
        (
            {"rule": ("api=Produce,action=drop,transactional_id=my-billing-*",)},
            '"my-billing-*", and no stage',
        ),
        ({"rule": ("api=Produce,action=drop,transactional_id=*ments-?",)}, ""),
        (
            {"rule": ("api=JoinGroup,action=drop,group=invoices",)},
            "write one of fencepost-payments, fencepost-shop",
        ),
        ({"rule": ("api=JoinGroup,action=drop,group=*-shop",)}, ""),
        (
            {"rule": ("api=EndTxn,action=hold,hold_s=5,release.after_s=90",)},
            "release.after_s is 90, but the rule is in force for 5 s, and its heal delivers what it keeps",
        ),
        ({"rule": ("api=EndTxn,action=hold,start_s=20,release.after_s=40",)}, "is in force for 40 s"),
        ({"rule": ("api=EndTxn,action=swap,hold_s=5,release.after_s=90",)}, ""),
        (
            {"rule": ("api=EndTxn,action=delay,hold_s=5,delay_s=5",)},
            "delay_s is 5, but the rule is in force for 5 s, and its heal delivers what it keeps",
        ),
        ({"rule": ("api=EndTxn,action=delay,delay_s=90",)}, "write a smaller delay_s, or a larger hold_s"),
        ({"rule": ("api=EndTxn,action=drop,hold_s=61",)}, "hold_s is 61, and the run ends after 60 s"),
        (
            {
                "rule": ("api=EndTxn,action=drop,transactional_id=nope",),
                "defect": "random-transactional-id",
            },
            "",
        ),
    ],
)
def test_a_rule_that_can_never_act_is_refused(changes: dict[str, Any], message: str) -> None:
    options = Options(**{**ROOM_S, **changes})
    if not message:
        assert draw_schedule(options, WORKLOADS["shop"]).planned_faults
        return
    with pytest.raises(UsageError) as refused:
        draw_schedule(options, WORKLOADS["shop"])
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert command_line(options)


def test_a_workload_without_transactions_sends_no_end_of_one() -> None:
    options = Options(**{**ROOM_S, "rule": ("api=EndTxn,action=drop",)}, workload="at-least-once")
    with pytest.raises(UsageError, match="a client without a transactional id sends no EndTxn"):
        draw_schedule(options, WORKLOADS["at-least-once"])


def test_nothing_is_known_about_the_client_of_a_users_program(tmp_path: Path) -> None:
    pipeline = CustomPipeline(read_pipeline(tmp_path, MINIMAL))
    rules = (
        "api=AddPartitionsToTxn,action=drop,transactional_id=any-*",
        "api=ConsumerGroupHeartbeat,action=drop,group=any",
    )
    options = Options(**{**ROOM_S, "rule": rules}, pipeline=str(tmp_path / "pipeline.toml"))
    assert len(draw_schedule(options, pipeline).planned_faults) == 2


def test_a_rule_for_a_worker_that_joins_later_is_kept() -> None:
    options = Options(**{**ROOM_S, "rule": ("api=EndTxn,action=drop,transactional_id=shop-4",)})
    with pytest.raises(UsageError, match="no stage of shop has such a name"):
        draw_schedule(options, WORKLOADS["shop"])
    schedule = draw_schedule(replace(options, churn_s=10.0), WORKLOADS["shop"])
    assert "shop-4" in {change.joins for change in schedule.churn}


def test_on_a_shared_cluster_a_tag_is_before_each_name() -> None:
    shared = {"cluster": "external", "bootstrap": "localhost:9092", "permits": ("links",)}
    options = Options(**{**ROOM_S, **shared, "rule": ("api=EndTxn,action=drop,transactional_id=shop-1",)})
    with pytest.raises(UsageError, match=re.escape("write one of *payments-1, ")):
        draw_schedule(options, WORKLOADS["shop"])
    tagged = replace(options, rule=("api=EndTxn,action=drop,transactional_id=*-shop-1",))
    assert draw_schedule(tagged, WORKLOADS["shop"]).planned_faults


def test_a_workload_without_transactional_ids_has_none_to_select() -> None:
    rule = "api=Produce,action=drop,transactional_id=shop-1"
    options = Options(**{**ROOM_S, "rule": (rule,)}, workload="at-least-once")
    with pytest.raises(
        UsageError, match="no stage of at-least-once has such a name: leave out transactional_id"
    ):
        draw_schedule(options, WORKLOADS["at-least-once"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": ("api=ListOffsets,action=drop",)}, 'a rule: Kafka 0 has no API "ListOffsets"'),
        ({"nemesis": ("error-response@EndTxn:NOT_COORDINATR",)}, "error-response: there is no error"),
        (
            {"nemesis": ("error-response@EndTxn:OFFSET_OUT_OF_RANGE",)},
            "error-response: a broker never answers EndTxn with OFFSET_OUT_OF_RANGE",
        ),
        ({"nemesis": ("late-end-txn", "lost-response", "late-marker")}, ""),
    ],
)
def test_names_that_the_version_of_kafka_does_not_have_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    kafka = KafkaDistribution("0", (make_jar(tmp_path),))
    schedule = draw_schedule(Options(**{**ROOM_S, **changes}), WORKLOADS["shop"])
    if not message:
        require_known_messages(schedule.planned_faults, kafka)
        return
    with pytest.raises(UsageError) as refused:
        require_known_messages(schedule.planned_faults, kafka)
    assert str(refused.value).startswith(message)
