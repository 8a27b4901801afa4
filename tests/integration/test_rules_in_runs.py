"""Rules of the protocol proxy in a run of a defective workload.

The defect and a known bug of Kafka are found, and a rule that matches nothing did not act.
"""

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import Result
from fencepost.cli import run_command_line
from harness.model.kafka_protocol import Sender, why_never_sent
from tests.support.diagrams import assert_drawn
from workloads.defects import DEFECTS

DEFECT = "read-uncommitted"  # the others: tests/chaos/test_many_runs.py
MOST_COMMANDS = 10


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run on librdkafka, in which workers read uncommitted records, and an EndTxn arrives late (KAFKA-17754)."""
    return fencepost.run(
        defect=DEFECT,
        brokers=2,
        nemesis=["late-end-txn", "stale-coordinator"],
        rule=[
            "api=EndTxn,client_id=unknown-id,action=drop",
            "api=InitProducerId,action=error,error=COORDINATOR_LOAD_IN_PROGRESS,since=start",
            "api=AddOffsetsToTxn,action=error,error=NOT_COORDINATOR",
        ],
        time_limit=24,
        rate=60,  # under load, the transactions that the late request would abort are aborted by rebalances
        abort_share=0.3,
        seed=3,
        store=tmp_path_factory.mktemp("rules"),
    )


def faults_of(result: Result) -> dict[str, dict[str, Any]]:
    """Return the reports of the faults by name and target."""
    return {f"{fault['fault']} {fault['target']}": fault for fault in result.verdict["faults"]}


def test_a_late_end_of_a_transaction_is_found_as_a_lost_commit(result: Result) -> None:
    assert not result.valid and "lost-commit" in result.anomalies


def test_no_anomaly_is_found_that_neither_the_defect_nor_the_late_request_causes(result: Result) -> None:
    own = {
        anomaly
        for anomaly, body in result.verdict["anomalies"].items()
        if not body["allowed"] and not body.get("because")
    }
    assert own & DEFECTS[DEFECT].anomalies, result.explain()
    assert own <= DEFECTS[DEFECT].anomalies | {"lost-commit"}, result.explain()


def test_the_defect_is_drawn_and_the_commands_of_the_report_trace_its_examples(
    result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_drawn(result.folder, DEFECT)
    report = (result.folder / "report.html").read_text()
    commands = [
        html.unescape(command) for command in re.findall(r'Step by step: <code dir="ltr">([^<]+)<', report)
    ]
    assert commands, "the report has no command that traces an example"
    for command in commands[:: max(1, len(commands) // MOST_COMMANDS)]:
        capsys.readouterr()
        assert run_command_line(shlex.split(command)[1:]) == 0
        assert "succeeds" in capsys.readouterr().out


def test_the_proof_says_when_the_request_was_held_delivered_and_answered(result: Result) -> None:
    fault = faults_of(result)["late-end-txn EndTxn(abort) requests"]
    assert fault["acted"]
    for words in ("held", "was delivered when AddOffsetsToTxn request", "was answered NONE"):
        assert words in fault["evidence"]


def test_a_broker_that_is_not_the_coordinator_refuses_a_client_that_was_sent_there(result: Result) -> None:
    (fault,) = (report for name, report in faults_of(result).items() if name.startswith("stale-coordinator"))
    assert fault["acted"]
    for words in ("NodeId", "which answered NOT_COORDINATOR", "which answered NONE"):
        assert words in fault["evidence"]


def test_a_rule_that_matches_nothing_did_not_act(result: Result) -> None:
    reports = faults_of(result)
    assert reports["rule AddOffsetsToTxn requests"]["acted"]
    report = reports["rule EndTxn requests of unknown-id"]
    assert not report["acted"] and "passed, and the rule selects none of them" in report["evidence"]
    assert "fault-did-not-act" in result.reasons


def test_a_rule_since_the_start_acts_on_what_a_worker_sends_at_its_start(result: Result) -> None:
    report = faults_of(result)["rule InitProducerId requests"]
    assert report["acted"] and "was answered COORDINATOR_LOAD_IN_PROGRESS" in report["evidence"]


def test_the_journal_of_the_proxy_has_the_request_and_what_was_done(result: Result) -> None:
    lines = [json.loads(line) for line in (Path(result.folder) / "protocol.jsonl").read_text().splitlines()]
    held = {
        line["event"]["request"] for line in lines if "event" in line and line["event"]["event"] == "held"
    }
    requests = {line["request"]["number"]: line["request"] for line in lines if "request" in line}
    assert held and all(requests[number]["api"] == "EndTxn" for number in held & requests.keys())
    assert any(request["errors"] == ["NOT_COORDINATOR"] for request in requests.values())
    (log,) = Path(result.folder).glob("**/protocol-proxy.log")
    assert "Traceback" not in log.read_text()


def test_its_clients_sent_no_request_that_is_refused_as_never_sent(result: Result) -> None:
    lines = [json.loads(line) for line in (Path(result.folder) / "protocol.jsonl").read_text().splitlines()]
    requests = [line["request"] for line in lines if "request" in line]
    sent = {request["api"] for request in requests if request["link"].startswith("client:w")}
    assert {"EndTxn", "AddPartitionsToTxn", "JoinGroup", "Fetch"} <= sent
    assert not {api for api in sent if why_never_sent(api, Sender("librdkafka", transaction_version=2))}


def test_the_report_has_the_held_request_at_the_lost_commit(result: Result) -> None:
    report = (Path(result.folder) / "report.html").read_text()
    assert 'id="changed-requests"' in report
    held = re.findall(r"<dt>changed by a rule</dt><dd>(EndTxn\(abort\)[^<]*)</dd>", report)
    assert held and all("held by late-end-txn" in words and "answered NONE" in words for words in held)


def test_the_verdict_counts_the_errors_that_clients_got(result: Result) -> None:
    assert result.verdict["api_errors"]["AddOffsetsToTxn"]["NOT_COORDINATOR"] == 1
