"""The types of the public API: its options, and a custom pipeline that is described in Python.

This module imports no other package of Fencepost, because it is loaded into a user's process.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

Function = Callable[..., Any]
"""A function at the top level of a module, because other processes load it from there."""
Names = str | list[str] | tuple[str, ...]
"""Names in a list, or in one text, separated by commas."""


@dataclass(frozen=True)
class Stage:
    """One program of the pipeline. docs/your-pipeline.md explains each field."""

    name: str
    reads: Sequence[str]
    writes: Sequence[str]
    command: Sequence[str]
    group: str | None = None
    instances: int = 3
    transactional_id: str | None = None
    transactions: bool = True
    transaction_timeout_s: float = 60.0
    ordered: bool = False
    kind: str = "service"
    every_s: float | None = None
    idle_s: float = 15.0
    works_within_s: float | None = None
    metadata_max_age_s: float = 300.0
    progress: Mapping[str, Any] | None = (
        None  # {"command": [...]}: it prints what is processed, without a group
    )
    ready: str | None = None
    ready_within_s: float = 60.0
    stop: str = "SIGTERM"
    stop_within_s: float = 30.0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path = "."  # relative to the working directory


@dataclass(frozen=True)
class Pipeline:
    """A custom pipeline: its stages, its inputs, and the outputs that must come out.

    Attributes:
        inputs: For each input topic: a function (rng, n) -> (key, value), or the path of a file of JSON lines.
        shares: For each input topic: its weight in the rate of inputs. The default is 1.0.
        partitioners: For each input topic: librdkafka's name of the partitioner of its inputs. The default is
            "murmur2_random", which chooses the same partition for a key as the Java client.
        outputs: A function (topic, key, value, headers) -> [(topic, key, value), ...] for the expected outputs.
        fold: In place of `outputs`, if outputs depend on earlier inputs of the same key: a function
            (state, topic, key, value) -> (state, [(topic, key, value), ...]).
        fold_key: A function (topic, key, value, headers) -> the key of a state of `fold`. None: the key of the input.
        compare: For each output topic: which of "headers", "timestamp_ms" and "partition" are compared in addition to
            key and value.
    """

    name: str
    stages: Sequence[Stage]
    inputs: Mapping[str, Function | str | Path]
    shares: Mapping[str, float] = field(default_factory=dict)
    partitioners: Mapping[str, str] = field(default_factory=dict)
    outputs: Function | None = None
    fold: Function | None = None
    correlate: str | Function = "content"
    ignore: Sequence[str] = ()
    final: Sequence[str] = ()  # topics in which only the last record of each key is checked
    fold_key: Function | None = None
    compare: Mapping[str, Sequence[str]] = field(default_factory=dict)
    guarantee: str = "exactly-once"
    topics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def toml(self) -> str:
        """The text of the file.

        Raises:
            ValueError: Another process could not load a function, or `shares` or `partitioners` names a topic that is
                not in `inputs`.
            ImportError: The package tomli-w is missing.
        """
        for name, topics in (("shares", self.shares), ("partitioners", self.partitioners)):
            if unknown := sorted(set(topics) - set(self.inputs)):
                raise ValueError(f"{name}: {', '.join(unknown)} is not in inputs")
        expect: dict[str, Any] = {}
        if self.outputs is not None or self.fold is not None:
            functions = {"outputs": self.outputs, "fold": self.fold, "fold_key": self.fold_key}
            expect = {key: _location(function) for key, function in functions.items() if function is not None}
            expect["correlate"] = (
                self.correlate if isinstance(self.correlate, str) else _location(self.correlate)
            )
            expect |= {"ignore": list(self.ignore), "final": list(self.final)}
            if self.compare:
                expect["compare"] = {topic: list(parts) for topic, parts in self.compare.items()}
        inputs = {
            topic: {
                **(
                    {"make": _location(source)}
                    if callable(source)
                    else {"file": str(Path(source).absolute())}
                ),
                "share": float(self.shares.get(topic, 1.0)),
                **({"partitioner": self.partitioners[topic]} if topic in self.partitioners else {}),
            }
            for topic, source in self.inputs.items()
        }
        document = {
            "name": self.name,
            "guarantee": self.guarantee,
            "stage": [_stage(stage) for stage in self.stages],
            **({"expect": expect} if expect else {}),
            "inputs": inputs,
            "topics": {name: dict(body) for name, body in self.topics.items()},
        }
        return _as_toml(document)

    def save(self, folder: Path) -> Path:
        """Write the file into a folder and return its path. Equal pipelines get the same file name."""
        text = self.toml()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
        file.write_text(text, encoding="utf-8")
        return file


def _as_toml(document: Mapping[str, Any]) -> str:
    """Write TOML. The import is local, because a plugin without its dependencies needs tomli-w only here."""
    try:
        import tomli_w
    except ModuleNotFoundError as missing:
        raise ImportError(
            "fencepost.Pipeline needs the package tomli-w: run `pip install tomli-w`, or name a pipeline.toml with "
            "pipeline=FILE"
        ) from missing
    return tomli_w.dumps(document)


def _stage(stage: Stage) -> dict[str, Any]:
    body = {key: value for key, value in vars(stage).items() if value is not None}
    lists = {key: list(body[key]) for key in ("reads", "writes", "command")}
    return {**body, **lists, "env": dict(stage.env), "cwd": str(Path(stage.cwd).absolute())}


def _location(function: Function) -> str:
    """`FILE.py:NAME`. Raises ValueError for a function that another process could not load."""
    function = inspect.unwrap(function)  # a decorated function would name the file of its decorator
    code, name = getattr(function, "__code__", None), getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier():
        raise ValueError(
            f"{function!r} must be a function at the top level of a module: other processes load it from there"
        )
    return f"{Path(code.co_filename).absolute()}:{name}"


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
