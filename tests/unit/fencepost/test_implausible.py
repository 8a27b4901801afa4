"""Metadata that cannot be make a run unknown, and name the fact. Those of a right run do not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from checkers.gaps.rule import apply_rules
from fencepost.checks.check_stored_runs import open_evidence
from fencepost.checks.run_files import IMPLAUSIBLE, RULES, StoredFiles, describe_gaps
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import SEGMENTS, ReaderPromise
from harness.results.reasons import Reason, ReasonCode
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.verdict import FaultReport, MembershipChange
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.histories import History
from tests.support.stored_tables import write_store
from tests.unit.fencepost.test_open_evidence import promises_table

KILL = FaultReport(
    *(
        "kill-worker",
        "worker w",
        12.0,
        15.0,
        True,
        "process 7 ended by SIGKILL; w.1 took over",
        "w was killed",
    ),
    {"worker": "w", "step": "after-send"},
)
PAUSE = FaultReport(
    *("pause-broker", "broker 2", 9.5, 20.0, True, "process 99 stopped by SIGSTOP", "broker 2 was paused"),
    {"broker": "2, 3", "partition": "a/0"},
)
JOIN = MembershipChange("s", "v.0", None, 11.0, 14.0)
PHASES = (
    RunPhase("cluster", -1.0, 6.0),
    RunPhase("workers", 9.0, 10.0),
    RunPhase("faults", 10.0, 20.0),
    RunPhase("drain", 20.0, 30.0),
)
METADATA = RunMetadata(
    phases=PHASES, faults=(KILL, PAUSE), churn=(JOIN,), clock_drift_ms=0.0, rested_ms=1_000.5
)
RUN: dict[str, Any] = {"id": 7, "seed": 1, "wall_ms_at_zero": 1000.0, "session_timeout_ms": 2000}
EVENTS: tuple[dict[str, Any], ...] = (
    {"index": 0, "time": 0, "type": "begin"},
    *(
        {"index": n, "time": round(at_s * 1e9), "type": kind, "f": fault.fault, "op": op}
        | ({} if kind == "invoke" else {"target": fault.target, "evidence": fault.evidence})
        for n, (kind, fault, op, at_s) in enumerate(
            [
                ("invoke", PAUSE, 0, 9.4),
                ("invoke", KILL, 1, 11.0),
                ("ok", KILL, 1, 15.1),
                ("ok", PAUSE, 0, 20.1),
            ],
            1,
        )
    ),
    {"index": 5, "time": 20_200_000_000, "type": "end"},
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    history = History()
    history.feed(2)
    history.transact(0, 1)
    write_store(tmp_path, [(7, history)], log=True)
    path = tmp_path / "history" / "journals.parquet"
    rows = [row | {"pid": 7 if row["journal"] == "w" else 8} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    write_journal(tmp_path, EVENTS)
    return tmp_path


def write_journal(store: Path, events: Any) -> None:
    (store / "journals").mkdir(exist_ok=True)
    lines = (f"{json.dumps(event)}\n" for event in events)
    (store / "journals" / "nemesis.jsonl").write_text("".join(lines))


def plan(**run: Any) -> StoredPlan:
    stage = StageSpec("s", ("a",), "g", workers=("w",))
    pipeline = PipelineSpec("w", (TopicSpec("a", 1, 1),), (stage,))
    promises = {"promises": promises_table(witness=SEGMENTS, replicas=True)}
    return StoredPlan(Options(seed=1, time_limit_s=10.5), {**RUN, **promises, **run}, [], pipeline.as_table())


def facts(store: Path, metadata: RunMetadata = METADATA, **run: Any) -> list[str]:
    return describe_gaps(IMPLAUSIBLE, StoredFiles(store, plan(**run), metadata))


def kill(**fields: Any) -> RunMetadata:
    """The metadata with another first fault. The journal of the faults is not compared."""
    return structs.replace(METADATA, faults=(structs.replace(KILL, **fields), PAUSE))


def test_the_metadata_of_a_right_run_are_plausible(store: Path) -> None:
    assert plan().promises.replicas
    assert facts(store) == []
    assert facts(store, structs.replace(METADATA, phases=PHASES[:2], faults=(), churn=())) == []
    assert facts(store, RunMetadata()) == []


def test_a_broker_that_is_killed_at_the_step_of_a_worker_has_a_process_of_its_own(store: Path) -> None:
    (store / "journals" / "nemesis.jsonl").unlink()
    at_a_step = kill(target="broker 2, txn-coordinator of w", evidence="process 55 ended by SIGKILL")
    assert facts(store, at_a_step) == []


@pytest.mark.parametrize(
    ("metadata", "fact"),
    [
        (kill(start_s=-3.0), "kill-worker began at -3 s, and the first worker was started at 9 s"),
        (kill(start_s=7.9), "kill-worker began at 7.9 s, and the first worker"),
        (
            kill(start_s=25.0, end_s=26.0),
            "kill-worker began at 25 s, and the run injected no fault after 20 s",
        ),
        (kill(end_s=32.0), "kill-worker ended at 32 s, and the run ended at 30 s"),
        (
            kill(details={"worker": "x-9.0"}),
            "kill-worker acted on worker x-9.0, and the run had no such worker",
        ),
        (kill(evidence="process 55 ended by SIGKILL"), "acted on process 55, and worker w was process 7"),
        (kill(details={"partition": "a/9"}), "kill-worker acted on a/9, and the run had no such partition"),
        (kill(details={"broker": "2, 8"}), "kill-worker acted on broker 8, and the run had no such broker"),
        (kill(details={"brokers": "9"}), "kill-worker acted on broker 9, and the run had no such broker"),
        (
            structs.replace(METADATA, churn=(structs.replace(JOIN, end_s=31.5),)),
            "the change of stage s ended at 31.5 s",
        ),
        (
            structs.replace(METADATA, churn=(structs.replace(JOIN, end_s=10.5),)),
            "the change of stage s ended before it began",
        ),
        (
            structs.replace(METADATA, churn=(structs.replace(JOIN, start_s=2.0),)),
            "the change of stage s began at 2 s",
        ),
        (structs.replace(METADATA, clock_drift_ms=-5.0), "clock_drift_ms is -5, and it cannot be negative"),
        (
            structs.replace(METADATA, rested_ms=999.0),
            "the pipeline wrote nothing more (rested_ms) before the run began",
        ),
        (
            structs.replace(METADATA, rows={"ops": -1}),
            "the number of rows of ops is -1, and it cannot be negative",
        ),
        (
            structs.replace(METADATA, requests={"EndTxn": [3, -1]}),
            "a version of EndTxn is -1, and it cannot be negative",
        ),
        (structs.replace(METADATA, protocol_crc=-1), "protocol_crc is -1, and it cannot be negative"),
        (
            structs.replace(METADATA, phases=(*PHASES, RunPhase("tables", 40.0, 35.0))),
            "the phase tables ended before it began",
        ),
    ],
)
def test_a_fact_that_cannot_be_is_named(store: Path, metadata: RunMetadata, fact: str) -> None:
    (store / "journals" / "nemesis.jsonl").unlink()
    (named,) = facts(store, metadata)
    assert fact in named


@pytest.mark.parametrize(
    ("run", "fact"),
    [
        ({"session_timeout_ms": -1}, "session_timeout_ms is -1"),
        ({"wall_ms_at_zero": -1.0}, "wall_ms_at_zero is -1"),
        ({"seed": 2}, "the seed is 1 and 2, and a run has one"),
    ],
)
def test_a_fact_of_the_plan_that_cannot_be_is_named(store: Path, run: dict[str, Any], fact: str) -> None:
    (named,) = facts(store, **run)
    assert fact in named


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        (
            {"fault": "kill-broker"},
            "metadata.json has kill-broker of worker w, and the journal of the faults does not",
        ),
        ({"target": "worker v"}, "has kill-worker of worker v, and the journal of the faults does not"),
        ({"evidence": "it has no effect"}, "and the journal of the faults does not"),
        ({"start_s": 9.9}, "has kill-worker of worker w at another time than the journal"),
        ({"end_s": 16.5}, "has kill-worker of worker w at another time than the journal"),
    ],
)
def test_a_fault_must_be_in_the_journal_of_the_faults(store: Path, fields: Any, fact: str) -> None:
    (named,) = facts(store, kill(**fields))
    assert fact in named


def test_a_run_that_ended_before_its_time_limit_says_why(store: Path) -> None:
    short = structs.replace(
        METADATA, phases=(*PHASES[:2], RunPhase("faults", 10.0, 19.0)), faults=(), churn=()
    )
    assert facts(store, short) == ["the phase faults lasted 9 s, and the time limit was 10.5 s"]
    assert facts(store, structs.replace(short, interrupted=True)) == []
    reason = Reason(ReasonCode.PIPELINE_FAILED, "w kept exiting")
    assert facts(store, structs.replace(short, evidence_problems=[reason])) == []


CUTS: dict[str, Callable[[Any], Any]] = {
    "without its end": lambda events: events[:-1],
    "empty": lambda events: (),
    "without times": lambda events: [{**event, "time": None} for event in events],
}


@pytest.mark.parametrize("cut", CUTS)
def test_an_incomplete_journal_of_the_faults_proves_nothing(store: Path, cut: str) -> None:
    write_journal(store, CUTS[cut](EVENTS))
    assert facts(store, kill(target="worker v")) == []


def test_metadata_that_cannot_be_make_the_evidence_incomplete(store: Path) -> None:
    plan().save(store / "run.toml")
    for metadata, count in ((METADATA, 0), (structs.replace(METADATA, clock_drift_ms=-5.0), 1)):
        metadata.save(store / "metadata.json")
        differences = open_evidence("it", store).differences
        assert len([text for text in differences if "clock_drift_ms is -5" in text]) == count


def _change(table: str, **columns: Any) -> Callable[[Path], None]:
    """Change columns of the first row of a table of the history."""

    def change(store: Path) -> None:
        path = store / "history" / f"{table}.parquet"
        rows = pq.read_table(path).to_pylist()
        rows[0] |= columns
        pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)

    return change


def _select(path: str, select: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def change(store: Path) -> None:
        pq.write_table(select(pq.read_table(store / path)), store / path)

    return change


SHORT = (*PHASES[:2], RunPhase("faults", 10.0, 19.0))
READER = ReaderPromise("observer-9", "observer", "read_committed", ("a",))
BY_RULE: dict[str, dict[str, Any]] = {
    "stage-twice": {"act": _select("history/stages.parquet", lambda rows: pa.concat_tables([rows, rows]))},
    "stages-not-planned": {"act": _change("stages", stage="t")},
    "stage-not-planned-so": {"act": _change("stages", ordered=True)},
    "journal-not-in-table": {"act": lambda store: (store / "journals" / "gone.jsonl").touch()},
    "reader-left-no-journal": {
        "run": {"promises": promises_table(witness=SEGMENTS, replicas=True, readers=(READER,))}
    },
    "partitions-renumbered": {"act": _change("partitions", tp=99)},
    "topics-called-internal": {"act": _change("partitions", internal=True)},
    "operations-backwards": {"act": _change("ops", return_ns=-1)},
    "partitions-not-stored": {"act": _select("history/partitions.parquet", lambda rows: rows.slice(1))},
    "replicas-not-stored": {"act": _select("log/replicas.parquet", lambda rows: rows.slice(0, 0))},
    "number-negative": {"metadata": structs.replace(METADATA, clock_drift_ms=-5.0)},
    "rested-before-the-run": {"metadata": structs.replace(METADATA, rested_ms=999.0)},
    "several-seeds": {"run": {"seed": 2}},
    "phase-backwards": {
        "metadata": structs.replace(METADATA, phases=(*PHASES, RunPhase("tables", 40.0, 35.0)))
    },
    "change-before-workers": {"metadata": kill(start_s=-3.0)},
    "change-after-faults": {"metadata": kill(start_s=25.0, end_s=26.0)},
    "change-after-the-run": {"metadata": kill(end_s=32.0)},
    "churn-backwards": {"metadata": structs.replace(METADATA, churn=(structs.replace(JOIN, end_s=10.5),))},
    "time-limit-not-reached": {"metadata": structs.replace(METADATA, phases=SHORT, faults=(), churn=())},
    "fault-of-unknown-worker": {"metadata": kill(details={"worker": "x-9.0"})},
    "fault-of-another-process": {"metadata": kill(evidence="process 55 ended by SIGKILL")},
    "fault-of-unknown-partition": {"metadata": kill(details={"partition": "a/9"})},
    "fault-of-unknown-broker": {"metadata": kill(details={"broker": "2, 8"})},
    "fault-not-in-journal": {"metadata": kill(target="worker v")},
    "fault-at-another-time": {"metadata": kill(start_s=9.9)},
}
"""By rule, the smallest change after which it fires."""


def _fired(
    store: Path,
    act: Callable[[Path], object] = lambda store: None,
    metadata: RunMetadata = METADATA,
    run: dict[str, Any] | None = None,
) -> set[str]:
    act(store)
    return {gap.rule.name for gap in apply_rules(RULES, StoredFiles(store, plan(**(run or {})), metadata))}


def test_no_rule_fires_on_the_files_of_a_right_run(store: Path) -> None:
    assert _fired(store) == set()


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_about_the_files_of_a_run_fires(store: Path, name: str) -> None:
    assert name in _fired(store, **BY_RULE[name])
