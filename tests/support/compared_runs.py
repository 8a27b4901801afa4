"""Write the folders of small runs and suites, for tests of comparisons."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from msgspec import structs

from harness.record.schema import LOG
from harness.results.recovery import Liveness
from harness.results.run_metadata import RunMetadata, RunPhase
from harness.results.suite import Cell, CellState, Suite
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from tests.support.suites import cell, suite
from tests.support.synthetic_store import MS, write_table

LOAD = RunPhase("faults", 10.0, 20.0)


def fault(kind: str = "kill-broker", start_s: float = 15.0, **changes: Any) -> FaultReport:
    """A fault that acted, with the liveness of an undisturbed pipeline unless `changes` says otherwise."""
    liveness = Liveness(first_commit_s=1.0, longest_gap_s=2.0, rate_back_s=3.0)
    report = FaultReport(
        kind, "broker 2", start_s, start_s + 1, True, "it ended", "it was killed", {}, liveness
    )
    return structs.replace(report, **changes)


def verdict(valid: Validity = Validity.VALID, **changes: Any) -> Verdict:
    """A verdict of a run that was checked for two anomalies."""
    body = {"faults": [fault()], "checked": ["lost-input", "duplicate"], **changes}
    return Verdict("store/shop/run", "shop", 7, valid.json, "", **body)


def findings(count: int, **changes: Any) -> AnomalyFindings:
    """Findings without examples."""
    return AnomalyFindings(count, examples=[], **changes)


def write_run(
    folder: Path,
    verdict_of_run: Verdict | None,
    *,
    commits: Sequence[tuple[float, float]] = ((11.0, 10.0), (12.0, 20.0), (16.0, 40.0)),
    options: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Path:
    """Write the folder of a run. The load is from 10 s to 20 s.

    Args:
        folder: the folder
        verdict_of_run: None: the run has no verdict
        commits: for each transaction, when its commit ended in seconds, and how long it took in milliseconds. A
            transaction has two records.
        options: the options in run.toml
        workload: the workload in run.toml
        run: the table [run] in run.toml
        versions: the versions in metadata.json
    """
    folder.mkdir(parents=True)
    settings = {
        "options": options or {"workload": "shop"},
        "run": run or {},
        "workload": workload or {"name": "shop"},
    }
    (folder / "run.toml").write_text(tomli_w.dumps(settings))
    phases = [RunPhase("workers", 5.0, 10.0), LOAD, RunPhase("drain", 20.0, 30.0)]
    RunMetadata(phases, versions=versions or {"kafka": "4.4.0"}).save(folder / "metadata.json")
    ops = [_operation(n, end_s, took_ms) for n, (end_s, took_ms) in enumerate(commits)]
    write_table(folder, "ops", ops)
    write_table(folder, "sends", [{"op": n, "tp": tp} for n in range(len(commits)) for tp in (0, 1)])
    if verdict_of_run:
        verdict_of_run.save(folder / "verdict.json")
    return folder


def _operation(number: int, end_s: float, took_ms: float) -> dict[str, Any]:
    return_ns = round(end_s * 1000) * MS
    commit_ns = return_ns - round(took_ms * MS)
    times = {"call_ns": commit_ns - MS, "commit_ns": commit_ns, "return_ns": return_ns}
    return {"op": number, "stage": "shop", "f": "txn", "outcome": "ok", "asked": "commit", **times}


def write_log(folder: Path, *commits: tuple[float, float]) -> None:
    """Write the transaction log of a program without journals: when a commit ended in seconds, and how long it took in
    milliseconds. The wall clock is 0 when the run begins.
    """
    states = []
    for n, (end_s, took_ms) in enumerate(commits):
        times_ms = (end_s * 1e3 - took_ms - 10, end_s * 1e3 - took_ms, end_s * 1e3)
        names = ("Ongoing", "PrepareCommit", "CompleteCommit")
        states += [
            {
                "transactional_id": "b-1",
                "log_tp": 9,
                "log_offset": 3 * n + i,
                "state": name,
                "update_ms": round(ms),
            }
            for i, (name, ms) in enumerate(zip(names, times_ms, strict=True))
        ]
    (folder / "log").mkdir()
    for name, rows in (("transactions", states), ("batches", [])):
        pq.write_table(pa.Table.from_pylist(rows, schema=LOG[name]), folder / "log" / f"{name}.parquet")


def seeded_cell(seed: int, state: CellState = CellState.VALID, **changes: Any) -> Cell:
    """A cell of a suite whose file lists the seeds."""
    more = {"seed": str(seed), **changes.pop("more", {})}
    made = cell(state=state, more=more, **changes)
    return structs.replace(
        made, seed=seed, slug=f"{made.slug}-{seed}", run=made.run and f"runs/{made.slug}-{seed}/time"
    )


def write_suite(
    folder: Path, *cells: Cell, runs: Mapping[int, Mapping[str, Any]] | None = None, **more: Any
) -> Path:
    """Write the folder of a suite, with the runs of its cells. `runs`: by seed, arguments of `write_run`."""
    folder.mkdir(parents=True)
    made: Suite = suite(*cells, **more)
    made.save(folder)
    for each in cells:
        if each.run and each.state is not CellState.FAILED:
            valid = Validity.INVALID if each.state is CellState.INVALID else Validity.VALID
            anomalies = {name: findings(count) for name, count in each.anomalies.items()}
            arguments = {
                "verdict_of_run": verdict(valid, anomalies=anomalies),
                **(runs or {}).get(each.seed, {}),
            }
            write_run(folder / each.run, **arguments)
    return folder
