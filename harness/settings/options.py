"""The options of a run: one frozen dataclass, with the same names in TOML, in Python and on the command line.

The key of an option is the name of its field with hyphens and without its unit. `time_limit_s` is `time-limit` in
`run.toml`, and `--time-limit` on the command line. Underscores are accepted in place of hyphens.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.common.errors import UsageError
from harness.common.wording import REDACTED, check_name, redact_setting, unknown
from harness.environment.versions import DEFAULT_KAFKA, kafka_version
from harness.settings.kinds import (
    BROKER,
    PATH,
    PREFIX,
    SPARK,
    TOOL,
    ClientChoice,
    ClientKind,
    Names,
    Number,
    OneOf,
    OptionKind,
    Rules,
    Switch,
    Text,
    WholeNumber,
    refuse,
)

PROTOCOLS = ("classic", "consumer")
ASSIGNORS = ("eager", "cooperative")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def option(kind: OptionKind, default: Any, help_text: str, *, flag: bool = False) -> Any:
    """Define a field of `Options`. With `flag`, the command line has an option for it; else `--set` sets it."""
    metadata = {"kind": kind, "help": help_text, "flag": flag}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class KnownNames:
    """The names that options may have as values. The caller of `Options.validated` takes them from the registries."""

    workloads: Collection[str]
    require_fault: Callable[[str], None]  # raises `UsageError` for an unknown fault
    require_cluster: Callable[
        ["Options"], None
    ]  # raises `UsageError` for options that the cluster kind does not have
    defects: Collection[str]
    kafka: Collection[str]
    read_rules: Callable[[str], tuple[str, ...]]
    """Returns the rules of a text, or of the file that it names. Raises `UsageError` if one is not a rule."""


@dataclass(frozen=True)
class Options:
    """All options of a run. Times are in seconds, rates per second."""

    workload: str = option(Text("a workload"), "shop", "the pipeline under test", flag=True)
    pipeline: str | None = option(
        Text("the path of a file"),
        None,
        "the pipeline.toml of a custom pipeline, instead of a workload",
        flag=True,
    )
    nemesis: tuple[str, ...] | None = option(
        Names(),
        None,
        "faults, with commas between them (kill-worker, kill-worker@after-send, kill-broker@controller, "
        "kill-broker+partition, kill-broker=3, crash-points), or random, or none; drawn from the seed if not given",
        flag=True,
    )
    rule: tuple[str, ...] = option(
        Rules(),
        (),
        "a rule for Kafka's messages (api=EndTxn,nth=3,action=drop), or a TOML file with [[rule]]; may be repeated",
        flag=True,
    )
    schedule: str | None = option(
        Text("the path of a file"),
        None,
        "a TOML file with [[schedule]], such as the run.toml of a run: which faults, when, and on which targets",
        flag=True,
    )
    time_limit_s: float = option(
        Number(1, 86400, "seconds"), 60.0, "how long the pipeline runs under faults, in seconds", flag=True
    )
    seed: int | None = option(
        WholeNumber(0, 2**63 - 1), None, "the seed of all random choices; random if not given", flag=True
    )
    workers: int = option(WholeNumber(1, 16), 3, "processes per stage of the pipeline", flag=True)
    rate: float = option(Number(0.1, 100_000, "inputs a second"), 150.0, "inputs a second", flag=True)
    txn_size: int = option(WholeNumber(1, 10_000), 20, "inputs per transaction", flag=True)
    client: str = option(
        ClientKind(), "librdkafka", "the pipeline's client: librdkafka or java, or NAME:VERSION", flag=True
    )
    driver: str | None = option(
        Text("the path of a folder"),
        None,
        "a folder with driver.toml: a program that is the client of `fencepost explore`",
    )
    group_protocol: str = option(
        OneOf(PROTOCOLS),
        "classic",
        "the protocol of consumer groups: classic or consumer (KIP-848)",
        flag=True,
    )
    assignor: str | None = option(
        OneOf(ASSIGNORS),
        None,
        "the assignor of the classic group protocol: eager or cooperative; eager if not given",
        flag=True,
    )
    cluster: str = option(
        Text("a kind of cluster"),
        "local",
        "the kind of cluster: `fencepost list clusters` lists them",
        flag=True,
    )
    brokers: int = option(WholeNumber(1, 7), 3, "how many brokers the cluster has, 1 to 7", flag=True)
    kafka: str = option(Text("a version of Kafka"), DEFAULT_KAFKA, "the version of Kafka", flag=True)
    defect: str | None = option(Text("a defect"), None, "give the workload a bug on purpose", flag=True)
    store: str = option(PATH, "store", "the folder in which runs are stored", flag=True)
    name: str | None = option(
        Text(
            "up to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
            r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        ),
        None,
        "the run's folder in the store; the workload's name if not given",
        flag=True,
    )
    keep: str = option(
        OneOf(("logs", "topics", "none")), "none", "keep segment files (logs) or external topics", flag=True
    )
    image: str = option(
        Text("auto, bundled, or an image"), "auto", "the image of docker's brokers: auto, bundled, or a name"
    )
    java: str = option(TOOL, "auto", "auto, bundled, or a Java home")
    toxiproxy: str = option(TOOL, "auto", "auto, bundled, or toxiproxy's binary")
    postgres: str = option(TOOL, "auto", "auto, bundled, or the folder with initdb and postgres")
    abort_share: float = option(
        Number(0, 0.5), 0.02, "share of the transactions, 0 to 0.5, that are aborted on purpose"
    )
    churn_s: float = option(
        Number(0, 3600, "seconds"),
        0.0,
        "seconds from one change of the workers (one joins or leaves) to the next; 0: no change",
    )
    empty_share: float | None = option(
        Number(0, 0.9),
        None,
        "share of the batches, 0 to 0.9, before which a worker commits a transaction that is empty, or has only "
        "offsets or only outputs; the workload's value if not given",
    )
    overrun_share: float = option(
        Number(0, 0.5),
        0.0,
        "share of the transactions, 0 to 0.5, that are kept open longer than their time-out",
    )
    transaction_version: int | None = option(
        WholeNumber(0, 2),
        None,
        "the cluster's feature transaction.version, 0 to 2 (KIP-890); the default of its Kafka version if not given",
    )
    txn_timeout_s: float = option(
        Number(2, 30, "seconds"), 30.0, "seconds after which the coordinator aborts an open transaction"
    )
    compression: str = option(
        OneOf(COMPRESSIONS),
        "none",
        "the compression of the records that workers and feeder send: none, gzip, snappy, lz4 or zstd",
    )
    record_bytes: int = option(
        WholeNumber(0, 4_194_304), 0, "bytes that inputs and outputs are padded to; 0: no padding"
    )
    partitions: int = option(WholeNumber(1, 1_000), 6, "partitions of each topic")
    replicas: int | None = option(
        WholeNumber(1, 7), None, "replicas of each topic of a workload; up to 3 if not given"
    )
    static_membership: bool = option(
        Switch(),
        False,
        "workers have a group.instance.id, which stays the same after a restart: true or false",
    )
    first_port: int | None = option(
        WholeNumber(1024, 65_000), None, "use ports from this one up; free ports if not given"
    )
    witness: str | None = option(
        OneOf(("segments", "fetch")),
        None,
        "how the brokers' logs are read: segments (all replicas, local's default) or fetch (leaders)",
    )
    bootstrap: str | None = option(
        Text("HOST:PORT,...", r"[^\s=,]+:\d+(,[^\s=,]+:\d+)*"), None, "HOST:PORT,... of an external cluster"
    )
    client_config: str | None = option(
        Text("the path of a file"), None, "Kafka's client properties: how to connect to an external cluster"
    )
    permits: tuple[str, ...] | None = option(
        Names(), None, "the targets of faults that an external run may have: workers,links,topics"
    )
    prefix: str = option(PREFIX, "fencepost", "the prefix of the topics, groups and ids of an external run")
    heap_mb: int = option(WholeNumber(128, 8192), 256, "MB of heap of each broker")
    mirror: str | None = option(
        Text("a URL (http, https or file)", r"(https?|file)://[^\s]+"),
        None,
        "a Maven mirror to fetch Kafka from",
    )
    master: str = option(
        Text(
            "a Spark master (local[N], spark://HOST:PORT, yarn, k8s://...)",
            r"local(\[.+\])?|yarn|k8s://\S+|spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*",
        ),
        "local[*]",
        "the Spark master on which the history is checked",
        flag=True,
    )
    spark_conf: Mapping[str, str] = option(
        SPARK, {}, "settings of the Spark that checks the history, K=V", flag=True
    )
    settings: Mapping[str, str] = option(BROKER, {}, "broker settings, each as broker.NAME=VALUE")

    @property
    def missing_secrets(self) -> tuple[str, ...]:
        """The settings whose values are placeholders, because a run does not store secrets."""
        texts = {f"{key}.{name}" if key == "broker" else name: text for key, name, text in _texts(self)}
        return tuple(name for name, text in texts.items() if REDACTED in text)

    def redacted(self) -> "Options":
        """Return the options for storing and showing, with a placeholder for each secret."""
        changes: dict[str, Any] = {"spark_conf": {}, "settings": {}}
        for key, name, text in _texts(self):
            field_name = FIELDS[key].name
            if field_name in changes:
                changes[field_name][name] = redact_setting(name, text)
            else:
                changes[field_name] = redact_setting(name, text)
        return dataclasses.replace(self, **changes)

    @property
    def run_name(self) -> str:
        """The name of the run folder in the store."""
        return self.name or self.workload

    def validated(self, known: KnownNames) -> "Options":
        """Return these options with the rules of their files, if they are consistent. Raises `UsageError`."""
        for key, column in FIELDS.items():
            value = getattr(self, column.name)
            if value is not None:
                _kind(key).accept(key, value)
            elif column.default is not None:
                raise refuse(key, "given", None)
        if self.missing_secrets:
            raise UsageError(
                f"{', '.join(self.missing_secrets)} must be given again, because a run does not store secrets: "
                f"replace each {REDACTED}, for instance with --set {self.missing_secrets[0]}=VALUE"
            )
        check_name("workload", self.workload, known.workloads)
        for fault in self.nemesis or ():
            known.require_fault(fault)
        if self.schedule is not None and self.nemesis is not None:
            raise UsageError(
                "--schedule and --nemesis both choose the faults of the run: leave one of them out"
            )
        if self.defect is not None:
            check_name("defect", self.defect, known.defects)
        check_name("Kafka version", self.kafka, known.kafka)
        _ = ClientChoice.of(self.client).pinned  # raises if there is no such version
        kafka_version(self.kafka).require(self.transaction_version, self.group_protocol)
        if self.group_protocol == "consumer" and self.assignor is not None:
            raise UsageError(
                f"assignor {self.assignor} cannot be used with group-protocol consumer, where the brokers assign the "
                "partitions (KIP-848): leave one of the two out"
            )
        known.require_cluster(self)
        rules = tuple(rule for text in self.rule for rule in known.read_rules(text))
        if self.run_name == "latest":
            raise UsageError('a run cannot be named "latest": the link to the newest run has that name')
        for key, tool in (("java", self.java), ("toxiproxy", self.toxiproxy), ("postgres", self.postgres)):
            if tool not in ("auto", "bundled") and not Path(tool).expanduser().exists():
                raise refuse(key, "auto, bundled, or a path that exists", tool)
        return dataclasses.replace(self, rule=rules)

    def updated(self, values: Mapping[str, object]) -> "Options":
        """Return these options with new values, by key. Tables are merged. Raises `UsageError`."""
        changes: dict[str, Any] = {}
        for name, value in values.items():
            key = key_of(name)
            accepted = _kind(key).accept(key, value)
            if isinstance(accepted, dict):
                accepted = {**getattr(self, FIELDS[key].name), **accepted}
            elif key == "rule":
                accepted = (*self.rule, *accepted)
            changes[FIELDS[key].name] = accepted
        return dataclasses.replace(self, **changes)


def _key(name: str) -> str:
    keys = {
        "time_limit_s": "time-limit",
        "txn_timeout_s": "txn-timeout",
        "churn_s": "churn",
        "settings": "broker",
    }
    return keys.get(name, name.replace("_", "-"))


FIELDS: Mapping[str, "dataclasses.Field[Any]"] = {_key(f.name): f for f in dataclasses.fields(Options)}
"""The fields of `Options` by key, in the order in which they are shown."""


def _texts(options: Options) -> Iterator[tuple[str, str, str]]:
    """Yield the key, name and value of every option that may contain a secret."""
    if options.mirror is not None:
        yield "mirror", "mirror", options.mirror
    yield "master", "master", options.master
    for key in ("spark-conf", "broker"):
        for name, text in getattr(options, FIELDS[key].name).items():
            yield key, name, text


def _kind(key: str) -> OptionKind:
    kind: OptionKind = FIELDS[key].metadata["kind"]
    return kind


def key_of(name: str) -> str:
    """Return the key of an option. Raises `UsageError`, whose message has the most similar key."""
    key = name.replace("_", "-")
    if key not in FIELDS:
        raise UsageError(unknown("option", name, FIELDS))
    return key


def parse(name: str, text: str) -> dict[str, Any]:
    """Read one option from text: `time-limit` and `60`, or `spark-conf` and `spark.x=y`."""
    key = key_of(name)
    return {key: _kind(key).parse(key, text)}


def parse_set(assignment: str) -> dict[str, Any]:
    """Read the value of `--set KEY=VALUE`; `broker.NAME=VALUE` is a setting of the brokers."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise refuse("--set", "KEY=VALUE", assignment)
    table, dot, name = key.strip().partition(".")
    if dot and table == "spark":  # the names of Spark's settings begin with `spark.`
        return parse("spark-conf", assignment)
    if dot:
        return parse(table, f"{name}={text}")
    return parse(table, text)


def to_toml(options: Options) -> dict[str, Any]:
    """Return the table `[options]` of `run.toml`: all options except None, with defaults and without secrets."""
    options = options.redacted()
    table: dict[str, Any] = {}
    for key, column in FIELDS.items():
        value = getattr(options, column.name)
        if value is not None:
            table[key] = list(value) if isinstance(value, tuple) else value
    return table


def from_toml(table: Mapping[str, object]) -> Options:
    """Read what `to_toml` returned. Secrets are lost, and a missing option gets its default. Raises `UsageError`."""
    return Options().updated(table)
