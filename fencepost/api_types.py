"""The types of the options of the public API.

This module imports no other package of Fencepost, because it is loaded into a user's process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

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
    driver: str | Path | None  # only for `explore`
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


class ExploreOptions(TypedDict, total=False):
    """The options of `fencepost explore`. None means the default."""

    programs: Names | None
    kinds: Names | None
    errors: str | None  # class or all
    members: bool | None
    pairs: bool | None
    brokers: int | None
    at_once: int | None  # cases at the same time
    limit: float | str | None  # begin no batch after this time: 600 or "10m"
    case: str | None  # try only this one
    again: bool | None
    client: str | None
    driver: str | Path | None  # a folder with driver.toml
    kafka: str | None
    transaction_version: int | None
    store: str | Path | None


class CheckOptions(TypedDict, total=False):
    """The options of `fencepost check`. None means the default."""

    master: str | None  # the Spark that checks
    spark_conf: Mapping[str, str] | None
    blind: bool | None  # check stored runs without the journals of their workers
    allow: Names | None  # anomalies that do not make a history invalid
    out: str | Path | None  # write the report of one external history as a page, too
