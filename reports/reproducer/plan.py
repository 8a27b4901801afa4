"""The cleaned `run.toml` of a reproducer: what `fencepost replay` needs to repeat the run, and nothing else."""

from collections.abc import Mapping
from typing import Any

import tomli_w

from harness.common.wording import REDACTED
from reports.reproducer.cleaning import Cleaning

KEPT_OPTIONS = (
    "workload", "nemesis", "rule", "time-limit", "seed", "workers", "rate", "txn-size", "client", "group-protocol",
    "assignor", "cluster", "brokers", "kafka", "defect", "name", "image", "abort-share", "churn", "empty-share",
    "overrun-share", "transaction-version", "txn-timeout", "compression", "record-bytes", "partitions", "replicas",
    "static-membership", "witness", "bootstrap", "permits", "prefix", "heap-mb",
)  # fmt: skip
"""The options that change what a run does. They have the same effect on every machine."""
OTHER_OPTIONS = (
    "pipeline", "broker", "schedule", "store", "keep", "java", "toxiproxy", "postgres", "first-port", "client-config",
    "mirror", "master", "spark-conf", "driver",
)  # fmt: skip
"""The first three are written in another form. The others are about a machine, and get their defaults."""


def cleaned_plan(
    settings: Mapping[str, Any], cleaning: Cleaning, pipeline: str | None
) -> tuple[str, list[str]]:
    """Return the text of the file, and a note about each option that the cleaning changed.

    A setting of the brokers that the cleaning changes becomes `<redacted>`. Then `fencepost replay` asks for it.

    Args:
        settings: the content of `run.toml`
        cleaning: what is replaced
        pipeline: the name of the pipeline file in the folder; None: the run is of a workload
    """
    options: Mapping[str, Any] = settings.get("options", {})
    kept = {key: cleaning.settings(options[key], key) for key in KEPT_OPTIONS if key in options}
    changed = [key for key, value in kept.items() if value != options[key]]
    brokers = {}
    for name, value in options.get("broker", {}).items():
        brokers[name] = value if cleaning.setting(name, value) == value else REDACTED
    if pipeline is not None:
        kept["pipeline"] = pipeline
    run = settings.get("run", {})
    own = {key: cleaning.settings(run[key], key) for key in ("seed", "churn") if key in run}
    tables: dict[str, Any] = {"options": {**kept, "broker": brokers} if brokers else kept, "run": own}
    text = tomli_w.dumps({name: table for name, table in tables.items() if table})
    for fault in settings.get("schedule", ()):
        text += "\n[[schedule]]\n" + tomli_w.dumps(cleaning.settings(fault))
    notes = [_note(key, kept[key]) for key in changed]
    notes += [
        f"The broker setting `{name}` is left out. Give it with `--set broker.{name}=VALUE`."
        for name, value in brokers.items()
        if value == REDACTED
    ]
    return text, notes


def _note(key: str, value: object) -> str:
    if key == "bootstrap":
        return (
            "The run was on an external cluster. Give the address of a test cluster with `--set bootstrap=HOST:PORT`, "
            "and how to connect with `--set client-config=FILE`."
        )
    return f"The option `{key}` was changed to `{value}`."
