"""The types of the public API: the options of a run, and the keys of `verdict.json`.

This module imports no other package of Fencepost, because it is loaded into a user's process.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from fencepost.your_pipeline import Pipeline

Names = str | list[str] | tuple[str, ...]
"""Names in a list, or in one text, separated by commas."""


class RunOptions(TypedDict, total=False):
    """The options of `fencepost run` and of its `--set`. None means the default.

    Times are in seconds, rates are per second. `fencepost run --help` explains each option.
    """

    workload: str | None
    pipeline: str | Path | Pipeline | None
    nemesis: Names | None
    rule: Names | None  # rules for Kafka's messages: docs/rules.md
    schedule: str | Path | None  # the path of a file with [[schedule]]: docs/faults.md
    time_limit: float | None
    seed: int | None
    workers: int | None
    rate: float | None
    txn_size: int | None
    client: str | None
    group_protocol: Literal["classic", "consumer"] | None
    assignor: Literal["eager", "cooperative"] | None
    cluster: str | None
    brokers: int | None
    kafka: str | None
    defect: str | None
    store: str | Path | None
    name: str | None
    keep: Literal["logs", "topics", "none"] | None
    image: str | None
    java: str | Path | None
    toxiproxy: str | Path | None
    postgres: str | Path | None
    abort_share: float | None
    churn: float | None
    empty_share: float | None
    overrun_share: float | None
    transaction_version: int | None
    txn_timeout: float | None
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    record_bytes: int | None
    partitions: int | None
    replicas: int | None
    static_membership: bool | None
    first_port: int | None
    witness: Literal["segments", "fetch"] | None
    bootstrap: str | None
    client_config: str | Path | None
    permits: Names | None
    prefix: str | None
    heap_mb: int | None
    mirror: str | None
    master: str | None
    spark_conf: Mapping[str, str] | None
    broker: Mapping[str, str] | None  # settings of the brokers


class CheckOptions(TypedDict, total=False):
    """The options of `fencepost check`. None means the default."""

    master: str | None  # the Spark that checks
    spark_conf: Mapping[str, str] | None
    blind: bool | None  # check stored runs without the journals of their workers
    allow: Names | None  # anomalies that do not make a history invalid
    out: str | Path | None  # write the report of one external history as a page, too


class ReasonDocument(TypedDict):
    """Why a run is unknown or a check was skipped, or a warning. docs/reasons.md lists the codes."""

    code: str
    text: str
    subject: NotRequired[str]  # what the reason concerns: a partition, a worker, a fault
    remedy: NotRequired[str]


class AnomalyDocument(TypedDict):
    """The findings of one anomaly."""

    count: int
    allowed: bool
    examples: Sequence[Mapping[str, Any]]
    warning: NotRequired[bool]
    because: NotRequired[str]  # the anomaly that causes this one
    allowed_by: NotRequired[str]
    words: NotRequired[str]
    meaning: NotRequired[str]
    permitted: NotRequired[int]
    sentences: NotRequired[Sequence[str]]  # one for each example


class FaultDocument(TypedDict):
    """The report of one fault. Times are in seconds since the run began. `end_s` is None if it was not healed."""

    fault: str
    target: str
    start_s: float
    end_s: float | None
    acted: bool
    evidence: str
    struck: str
    details: NotRequired[Mapping[str, str]]
    halts: NotRequired[bool]


class ChurnDocument(TypedDict):
    """One change of a stage's workers, and the partitions that moved."""

    stage: str
    joined: str | None
    left: str | None
    start_s: float
    end_s: float
    to: Sequence[str]
    away: Sequence[str]
    why: str


class UnsettledDocument(TypedDict):
    """Indeterminate operations: it is not known whether they took effect."""

    count: int
    examples: Sequence[Mapping[str, Any]]


class VerdictDocument(TypedDict):
    """The content of `verdict.json`. docs/verdict.md explains each key.

    For a history that could not be read there are only `history`, `valid` and `error`.
    """

    schema: int
    history: str
    name: str
    seed: int | None
    valid: bool | Literal["unknown"]
    summary: str
    anomalies: Mapping[str, AnomalyDocument]
    not_checked: Mapping[str, str]
    not_checked_because: Mapping[str, ReasonDocument]
    not_exercised: Mapping[str, str]
    unknown_because: Sequence[ReasonDocument]
    warnings: Sequence[ReasonDocument]
    checked: Sequence[str]
    faults: Sequence[FaultDocument]
    churn: NotRequired[Sequence[ChurnDocument]]
    coverage: Mapping[str, int]
    stats: Mapping[str, int]
    unsettled: UnsettledDocument
    requests: Mapping[str, Sequence[int]]
    api_errors: Mapping[str, Mapping[str, int]]
    error: NotRequired[str]
