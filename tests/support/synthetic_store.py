"""Write a small run folder as a real run would leave it, for tests of pages and messages."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from msgspec import structs

from checkers.checking.stored_runs import with_wording
from checkers.registry import CHECKERS, STORE_CHECKERS
from harness.record.schema import HISTORY
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from reports.summary import summary
from tests.support.findings import findings_of

MS = 1_000_000
CHECKED_ANOMALIES = tuple(name for checker in STORE_CHECKERS for name in checker.anomalies)
FAULTS = (
    FaultReport(
        "kill-broker",
        "broker 2, leader of invoices/0",
        12.1,
        20.4,
        True,
        "process 4711 ended by SIGKILL",
        "broker 2 was killed",
    ),
    FaultReport(
        "pause-worker",
        "worker shop-2.0 at before-commit",
        31.0,
        38.5,
        True,
        "process 4802 was stopped (state T), shop-2.1 went on at 34.9 s, and it came back at 38.5 s",
        "worker shop-2.0 was paused and replaced",
    ),
    FaultReport(
        "partition",
        "broker 1 from its peers",
        45.2,
        54.0,
        True,
        "4 links: each had a connection when it was cut, and a probe through each stayed without an answer",
        "broker 1 was cut off from its peers",
    ),
)


def operation(number: int, journal: str = "shop-2.0", **changes: Any) -> dict[str, Any]:
    """An operation as it is in an example."""
    stage = journal.split("-", maxsplit=1)[0]
    body = {
        "name": f"{journal}:{number}",
        "journal": journal,
        "process": 7,
        "stage": stage,
        "transactional_id": journal.split(".", maxsplit=1)[0],
        "outcome": "ok",
        "asked": "commit",
        "call_ns": 30_200 * MS,
        "commit_ns": 30_900 * MS,
        "return_ns": 38_700 * MS,
        "error": None,
        "line": 2 * number - 1,
        "end_line": 2 * number,
    }
    return body | changes


def record(offset: int, topic: str = "invoices", **changes: Any) -> dict[str, Any]:
    """A record as it is in an example."""
    body = {
        "topic": topic,
        "partition": 3,
        "offset": offset,
        "value": f"shop-2.0:{offset}:0",
        "producer_id": 4001,
        "epoch": 2,
        "fate": "commit",
        "marker_offset": offset + 5,
    }
    return body | changes


REPROCESSED_INPUT = {
    "input": {"topic": "purchases", "partition": 1, "offset": 812},
    "slot": "invoice",
    "records": [
        record(417, operation=operation(60)),
        record(
            431,
            value="shop-2.1:3:0",
            producer_id=4009,
            epoch=0,
            operation=operation(
                3, "shop-2.1", call_ns=35_000 * MS, commit_ns=35_100 * MS, return_ns=35_140 * MS
            ),
        ),
    ],
}


def operation_rows(run_s: int = 75, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Rows of the table `ops`: two stages, with fewer and slower transactions during faults."""
    rng, op = Random(seed), 0
    for stage in ("payments", "shop"):
        for second in range(run_s):
            during_fault = any(fault.start_s <= second < fault.start_s + 4 for fault in FAULTS)
            for _ in range(rng.randint(0, 6) if during_fault else rng.randint(24, 34)):
                call = second * 1000 * MS + rng.randrange(1000) * MS
                duration_ns = int(
                    (rng.lognormvariate(6, 1.2) if during_fault else rng.lognormvariate(2.6, 0.4)) * MS
                )
                draw = rng.random()
                outcome = "info" if during_fault and draw < 0.1 else "fail" if draw < 0.03 else "ok"
                abort = outcome == "fail" and draw < 0.02
                yield {
                    "run": 0,
                    "op": op,
                    "name": f"{stage}-1.0:{op}",
                    "journal": f"{stage}-1.0",
                    "process": 1,
                    "stage": stage,
                    "group": stage,
                    "transactional_id": f"{stage}-1",
                    "f": "txn",
                    "outcome": outcome,
                    "asked": "abort" if abort else "commit",
                    "call_ns": call,
                    "commit_ns": call + 5 * MS,
                    "return_ns": None if outcome == "info" else call + 5 * MS + duration_ns,
                    "error": None,
                    "fenced": False,
                    "line": 1,
                    "end_line": 2,
                }
                op += 1


def write_table(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write one table of the history."""
    (folder / "history").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows), schema=HISTORY[name])
    pq.write_table(table, folder / "history" / f"{name}.parquet", compression="zstd")


def write_journal(folder: Path, name: str, operations: int) -> None:
    """Write a journal with an invocation and a completion of each operation."""
    (folder / "journals").mkdir(exist_ok=True)
    with (folder / "journals" / f"{name}.jsonl").open("w") as file:
        for number in range(1, operations + 1):
            common = {"op": number, "f": "txn", "process": 7}
            claims = [{"topic": "purchases", "partition": 1, "first": number * 4, "next": number * 4 + 4}]
            file.write(json.dumps(common | {"type": "invoke", "claims": claims}) + "\n")
            file.write(json.dumps(common | {"type": "ok", "sends": [["invoices", 3, number * 7]]}) + "\n")


def make_verdict(valid: Validity, **changes: Any) -> Verdict:
    """A verdict of the run that `write_store` writes."""
    anomalies: dict[str, AnomalyFindings] = {}
    reasons: list[Reason] = []
    if valid is Validity.INVALID:
        anomalies["reprocessed-input"] = findings_of(3, [REPROCESSED_INPUT] * 3)
        anomalies["group-offset-regression"] = findings_of(
            1,
            [
                {
                    "group": "shop",
                    "input": {"topic": "purchases", "partition": 1, "offset": 812},
                    "committed": 812,
                    "committed_before": 816,
                    "operation": operation(60),
                }
            ],
            because="reprocessed-input",
        )
        anomalies["contended-id"] = findings_of(
            2, [{"transactional_id": "shop-2"}], allowed=True, warning=True
        )
    if valid is Validity.UNKNOWN:
        reasons = [
            Reason(
                ReasonCode.FAULT_DID_NOT_ACT,
                "fault 2 (pause-worker) did not act",
                "pause-worker",
                "repeat it with another `--seed`",
            ),
            Reason(ReasonCode.READER_SHORT, "the final reader of invoices/4 did not come to the end"),
        ]
    faults = changes.get("faults", FAULTS)
    coverage = {"inputs": 120034, "outputs": 240068, "committed": 3900, "aborted": 60, "fenced": 2}

    body: dict[str, Any] = {
        "history": "store/shop/20261121T100000Z",
        "name": "shop",
        "seed": 42,
        "valid": valid.json,
        "summary": "",
        "anomalies": anomalies,
        "not_exercised": {"zombie": "no paused worker came back after its replacement had begun"}
        if valid is Validity.UNKNOWN
        else {},
        "not_checked_because": {
            "hanging-transaction": Reason(ReasonCode.NO_LOGS, "no brokers' logs in this history")
        }
        if valid is Validity.UNKNOWN
        else {},
        "faults": faults,
        "checked": CHECKED_ANOMALIES,
        "stats": {"ops": 4000, "ok": 3900, "fail": 60, "info": 40},
        "unknown_because": reasons,
        "coverage": coverage,
    }
    verdict = add_wording(Verdict(**(body | changes)))
    return verdict if verdict.summary else structs.replace(verdict, summary=summarize(verdict))


def add_wording(verdict: Verdict) -> Verdict:
    """Add the words for each anomaly that belongs to a checker."""
    known = {name for checker in CHECKERS for name in checker.anomalies}
    anomalies = {
        name: with_wording(name, findings) if name in known else findings
        for name, findings in verdict.anomalies.items()
    }
    return structs.replace(verdict, anomalies=anomalies)


def summarize(verdict: Verdict) -> str:
    """The summary of a verdict, as `fencepost` writes it."""
    without_words = {
        name: structs.replace(findings, words="") for name, findings in verdict.anomalies.items()
    }
    return summary(
        verdict.validity,
        add_wording(structs.replace(verdict, anomalies=without_words)).anomalies,
        verdict.faults,
        unknown_because=verdict.unknown_because,
        coverage=verdict.coverage,
        not_checked=verdict.not_checked_because,
    )


def _write_metadata(folder: Path, verdict: Verdict) -> None:
    spans = [("start the cluster", -5.8, 0), ("workload under faults", 0, 60), ("drain", 60, 66)]
    spans += [("final reads", 66, 71), ("take the logs", 71, 73.5), ("check", 73.5, 86)]
    versions = {
        "fencepost": "0.1.0",
        "kafka": "4.3.1",
        "java": "25.0.2",
        "librdkafka": "2.16.0",
        "python": "3.11.2",
    }
    RunMetadata(
        phases=[RunPhase(*span) for span in spans],
        faults=list(verdict.faults),
        unscheduled={
            "kill-group-coordinator": "the schedule had no room for it: a time limit of 75 s would do"
        },
        versions=versions,
        unexpected_errors=[
            Reason(
                ReasonCode.UNEXPECTED_ERROR,
                "shop-1.0:812 met an error that nobody foresaw: SystemError",
                "shop-1.0:812",
            )
        ]
        if verdict.anomalies
        else [],
    ).save(folder / "metadata.json")


def _write_run_file(folder: Path, verdict: Verdict) -> None:
    schedule = [
        {"fault": f.fault, "target": f.target.split(",")[0], "start_s": f.start_s, "hold_s": 8.0}
        for f in verdict.faults
    ]
    settings = {
        "run": {
            "id": "shop-20261121",
            "started": "2026-11-21T10:00:00Z",
            "wall_ms_at_zero": 1_795_255_200_000,
            "seed": 42,
            "command": "fencepost run --workload shop --time-limit 60 --seed 42",
        },
        "options": {"workload": "shop", "time_limit": 60, "workers": 3, "rate": 400, "cluster": "local"},
        "schedule": schedule,
    }
    (folder / "run.toml").write_text(tomli_w.dumps(settings))


@cache
def _operations() -> pa.Table:
    return pa.Table.from_pylist(list(operation_rows()), schema=HISTORY["ops"])


@cache
def _sends() -> pa.Table:
    common = {"run": 0, "topic": "invoices", "acked": True}
    rows = [
        {**common, "op": op, "n": n, "value": f"{op}:{n}"}
        for op in _operations()["op"].to_pylist()
        for n in range(20)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY["sends"])


def write_store(folder: Path, verdict: Verdict) -> Path:
    """Write the folder of a run of 75 s."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history").mkdir(exist_ok=True)
    for name, table in (("ops", _operations()), ("sends", _sends())):
        pq.write_table(table, folder / "history" / f"{name}.parquet", compression="zstd")
    write_journal(folder, "shop-2.0", 80)
    write_journal(folder, "shop-2.1", 10)
    (folder / "log").mkdir(exist_ok=True)
    for broker in "123":
        (folder / "brokers" / broker).mkdir(parents=True, exist_ok=True)
        (folder / "brokers" / broker / "server.log").write_text("INFO started\n" * 100)
    _write_metadata(folder, verdict)
    _write_run_file(folder, verdict)
    (folder / "verdict.json").write_text(verdict.line())
    return folder
