"""`fencepost list`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from fencepost import registry
from harness.errors import ExitStatus
from harness.names import check_name

KINDS = ("workloads", "nemeses", "checkers", "clusters", "anomalies", "defects", "kafka", "clients")
SINGULAR = {"nemeses": "nemesis", "anomalies": "anomaly", "kafka": "Kafka version"}
Entry = Mapping[str, Any]
"""`name` and `summary`, and what else this kind tells of each."""


@click.command("list", short_help="List workloads, faults, defects, anomalies, ...")
@click.argument("kind", metavar="|".join(KINDS))
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option(
    "--json", "as_json", is_flag=True, help="print a list of objects, with all that is known of each"
)
def command(kind: str, names: tuple[str, ...], as_json: bool) -> ExitStatus:
    """List what there is of one kind, or of that only what is named; of an anomaly that is named, all.

    \b
    Example:
      fencepost list nemeses
      fencepost list defects --json
      fencepost list anomalies lost-input
    """
    kind = {"faults": "nemeses"}.get(kind, kind)
    check_name("kind of thing to list", kind, KINDS)
    entries = {entry["name"]: entry for entry in _entries(kind)}
    for name in names:
        check_name(SINGULAR.get(kind, kind.removesuffix("s")), name, entries)
    told = [entries[name] for name in names or entries]
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
    elif kind == "anomalies" and names:
        print("\n".join(map(registry.anomaly_page, names)), end="")
    else:
        _table(kind, told)
    return ExitStatus.VALID


def _table(kind: str, entries: Sequence[Entry]) -> None:
    width = max((len(entry["name"]) for entry in entries), default=0)
    for entry in entries:
        print(f"{entry['name']:<{width}}  {entry['summary']}".rstrip())
        for line in _more(kind, entry):
            print(f"{'':<{width}}  {line}")


def _more(kind: str, entry: Entry) -> list[str]:
    """Further lines of one entry."""
    if kind == "defects":
        return [
            f"may cause {', '.join(entry['anomalies'])}",
            f"of {', '.join(entry['workloads'])}",
        ]
    if kind == "workloads":
        return [
            f"guarantee  {entry['guarantee']}",
            *(
                f"stage      {stage['name']}: {', '.join(stage['reads'])} -> {', '.join(stage['writes'])}, "
                f"by {stage['delivery']}"
                for stage in entry["stages"]
            ),
            f"topics     {', '.join(entry['topics'])}",
            *([f"tables     {_tables(entry['tables'])}"] if entry["tables"] else []),
            f"clients    {', '.join(entry['clients'])}",
            f"defects    {', '.join(entry['defects']) or 'none'}",
        ]
    return []


def _tables(tables: Sequence[Mapping[str, str]]) -> str:
    """`store.users in sqlite`."""
    return ", ".join(f"{table['name']} in {table['store']}" for table in tables)


def _entries(kind: str) -> Sequence[Entry]:
    if kind == "workloads":
        return registry.workload_entries()
    if kind == "defects":
        return registry.defect_entries()
    if kind == "nemeses":
        return [
            {"name": name, "summary": nemesis.summary, "by_default": nemesis.by_default}
            for name, nemesis in registry.nemeses().items()
        ]
    if kind == "kafka":
        return registry.kafka_entries()
    if kind == "clients":
        return registry.client_entries()
    told = {"clusters": registry.clusters, "checkers": registry.checkers, "anomalies": registry.anomalies}
    return [{"name": name, "summary": summary} for name, summary in told[kind]().items()]
