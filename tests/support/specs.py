"""Specs of processes with defaults, so that a test sets only the fields that it is about."""

from pathlib import Path
from typing import Any

from harness.processes.specs import (
    ClientSpec,
    ConnectionSpec,
    CustomPipelineSpec,
    JournalSpec,
    MembershipSpec,
    ProcessSpec,
    RunSpec,
    TaskSpec,
    TransactionsSpec,
    WorkerSpec,
    WorkloadSpec,
)


def worker_spec(worker: str = "w", stage: str = "s", **other: Any) -> WorkerSpec:
    fields = {"process": 0, "group": None, "transactional_id": None, **other}
    return WorkerSpec(stage, worker, **fields)


def process_spec(folder: Path, task: TaskSpec, name: str = "p", control_fd: int | None = None) -> ProcessSpec:
    return ProcessSpec(JournalSpec(name, folder / f"{name}.jsonl", 0), "127.0.0.1:1", control_fd, task)


def run_spec(pipeline: WorkloadSpec | CustomPipelineSpec) -> RunSpec:
    return RunSpec(1, "none", 0, True, ConnectionSpec(None, proxied=False), {"in": 1}, pipeline)


def workload_spec(client: ClientSpec | None = None, name: str = "shop") -> WorkloadSpec:
    transactions = TransactionsSpec(20, 0.0, 30_000)
    return WorkloadSpec(name, "", None, 3, {}, client or ClientSpec(), MembershipSpec(), transactions)
