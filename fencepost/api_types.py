"""The types of the public API: the options of a run, and the keys of `verdict.json`.

Like all that a user's process loads, this imports no other room of the house.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from fencepost.your_pipeline import Pipeline

Names = str | list[str] | tuple[str, ...]
"""Names in a list, or in one text with commas between them."""


class RunOptions(TypedDict, total=False):
    """The options of `fencepost run`. None is the default. Times are seconds, rates are per second.

    `fencepost run --help` says what each one means; the others are those of `--set`.
    """

    workload: str | None
    pipeline: str | Path | Pipeline | None
    nemesis: Names | None
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
    """The options of `fencepost check`. None is the default."""

    master: str | None  # the Spark that checks
    spark_conf: Mapping[str, str] | None
    blind: bool | None  # check stored runs without the journals of their workers
    allow: Names | None  # anomalies that do not make a history invalid


class ReasonDocument(TypedDict):
    """Why a run is unknown, why a check was left out, or a warning. docs/reasons.md lists the codes."""

    code: str
    text: str
    subject: NotRequired[str]  # what it is about: a partition, a worker, a fault
    remedy: NotRequired[str]


class AnomalyDocument(TypedDict):
    """The findings of one anomaly."""

    count: int
    allowed: bool
    examples: Sequence[Mapping[str, Any]]
    warning: NotRequired[bool]
    because: NotRequired[str]  # the anomaly that this one follows from
    allowed_by: NotRequired[str]
    words: NotRequired[str]
    meaning: NotRequired[str]
    permitted: NotRequired[int]
    sentences: NotRequired[Sequence[str]]  # one for each example


class FaultDocument(TypedDict):
    """What one fault did. Times are seconds since the run began; `end_s` is None if it was not healed."""

    fault: str
    target: str
    start_s: float
    end_s: float | None
    acted: bool
    evidence: str
    struck: str
    details: NotRequired[Mapping[str, str]]


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
    """Operations of which it is not known whether they took effect."""

    count: int
    examples: Sequence[Mapping[str, Any]]


class VerdictDocument(TypedDict):
    """What `verdict.json` holds; docs/verdict.md says what each key means.

    Of a history that could not be read there are `history`, `valid` and `error` alone.
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
    error: NotRequired[str]
