"""`fencepost list`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from checkers.catalogue import catalogue, page
from checkers.registry import CHECKERS
from fencepost import registry
from fencepost.commands import output
from harness.cluster import describe_needs
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.errors import ExitStatus
from harness.common.wording import check_name
from harness.environment.cache import cache_folder
from harness.environment.kafka import fetch_kafka
from harness.environment.versions import CLIENTS, PACKAGES, UNVERSIONED, client_versions, kafka_version
from harness.model.vocabulary import WorkerStep
from harness.protocol.rule_checks import possible_errors
from harness.protocol.schemas import Schemas
from harness.results.reasons import ReasonCode
from harness.settings.options import Options

if TYPE_CHECKING:
    from harness.runner.nemesis import Nemesis

KINDS = {
    "workloads": "pipelines that are part of Fencepost",
    "nemeses": "kinds of faults, for --nemesis; `faults` lists the same",
    "checkers": "the files that find anomalies",
    "clusters": "kinds of clusters, for --cluster",
    "anomalies": "what a correct pipeline never does",
    "reasons": "why a run can be unknown, or a check is skipped",
    "defects": "bugs that a workload can be asked to have, for --defect",
    "kafka": "versions of Kafka, for --kafka",
    "clients": "clients with their versions, for --client",
    "apis": "the APIs of Kafka's protocol, for --rule",
}
SINGULAR = {"nemeses": "nemesis", "anomalies": "anomaly", "kafka": "Kafka version", "apis": "API"}
Entry = Mapping[str, Any]
"""`name`, `summary`, and more keys that depend on the kind."""


@click.command("list", short_help="List workloads, faults, defects, anomalies, ...")
@click.argument("kind", metavar="[KIND]", required=False)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option(
    "--json", "as_json", is_flag=True, help="print a list of objects, with all details of each entry"
)
def command(kind: str | None, names: tuple[str, ...], as_json: bool) -> ExitStatus:
    """List all entries of one kind, or only the named ones. For a named anomaly, print its whole page.

    Without KIND, print the kinds.

    \b
    Example:
      fencepost list nemeses
      fencepost list defects --json
      fencepost list anomalies lost-input
    """
    if kind is None:
        for name, summary in KINDS.items():
            print(f"{name:<10}  {summary}")
        return ExitStatus.VALID
    kind = {"faults": "nemeses"}.get(kind, kind)
    check_name("kind of thing to list", kind, KINDS)
    entries = {entry["name"]: entry for entry in _entries(kind)}
    for name in names:
        check_name(SINGULAR.get(kind, kind.removesuffix("s")), name, entries)
    selected = [entries[name] for name in names or entries]
    if as_json:
        output.print_json(selected, indent=1)
    elif kind == "anomalies" and names:
        pages = {anomaly.name: page(anomaly) for anomaly in catalogue() if anomaly.name in names}
        print("\n".join(pages[name] for name in names), end="")
    else:
        _table(kind, selected)
    return ExitStatus.VALID


def _table(kind: str, entries: Sequence[Entry]) -> None:
    width = max((len(entry["name"]) for entry in entries), default=0)
    for entry in entries:
        print(f"{entry['name']:<{width}}  {entry['summary']}".rstrip())
        for line in _more(kind, entry):
            print(f"{'':<{width}}  {line}")


def _more(kind: str, entry: Entry) -> list[str]:
    if kind == "defects":
        return [
            f"may cause {', '.join(entry['anomalies'])}",
            f"for {', '.join(entry['workloads'])}",
        ]
    if kind == "nemeses":
        needs = [f"needs a cluster on which one can {entry['needs']}"] if entry["needs"] else []
        proves = [f"proves that {entry['proves']}"]
        after_at = [f"{aim}  {', '.join(names)}".rstrip() for aim, names in entry["after_at"].items()]
        return needs + proves + after_at + ([] if entry["by_default"] else ["only if you name it"])
    if kind == "apis":
        return [
            f"{name:<9} {', '.join(entry[name])}" for name in ("request", "response", "errors") if entry[name]
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
    lists = {
        "workloads": _workloads,
        "defects": _defects,
        "nemeses": _nemeses,
        "kafka": _kafka,
        "clients": _clients,
        "apis": _apis,
    }
    if kind in lists:
        return lists[kind]()
    summaries = {
        "clusters": _clusters,
        "checkers": _checkers,
        "anomalies": registry.anomalies,
        "reasons": _reasons,
    }
    return [{"name": name, "summary": summary} for name, summary in summaries[kind]().items()]


def _nemeses() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "summary": nemesis.summary,
            "by_default": nemesis.by_default,
            "needs": describe_needs(nemesis.needs) if nemesis.needs else "",
            "proves": nemesis.proves,
            "after_at": _after_at(nemesis),
        }
        for name, nemesis in registry.nemeses().items()
    ]


def _after_at(nemesis: "Nemesis") -> dict[str, list[str]]:
    """Return the forms that can follow @ in the name of a fault, and the values of each."""
    names = nemesis.roles.get(nemesis.role_of_names)
    forms = {
        "@ROLE": [
            f"{name}[:{role.named_by}]" if role.named_by else name for name, role in nemesis.roles.items()
        ],
        "@[STAGE:]STATE": sorted(nemesis.states),
        # An instance of a custom pipeline does not report its steps.
        "@[STAGE:]STEP": [*WorkerStep] if nemesis.aimable and not nemesis.discovers_ids else [],
    }
    possible: dict[str, list[str]] = {f"@{names.named_by}": []} if names else {}
    possible |= {form: values for form, values in forms.items() if values}
    if nemesis.api_aim:
        possible["@" + "[:".join(nemesis.api_aim).upper() + "]" * (len(nemesis.api_aim) - 1)] = []
    return possible


def _clusters() -> Mapping[str, str]:
    return {kind.name: kind.summary for kind in CLUSTERS.values()}


def _checkers() -> Mapping[str, str]:
    """For each checker module: its family and its anomalies."""
    return {checker.module: f"{checker.family}: finds {', '.join(checker.anomalies)}" for checker in CHECKERS}


def _reasons() -> Mapping[str, str]:
    """For each reason code: the first sentence of its meaning."""
    return {code.value: f"{code.meaning.partition('. ')[0].rstrip('.')}." for code in ReasonCode}


def _workloads() -> list[dict[str, Any]]:
    return [
        {
            "name": workload.name,
            "summary": workload.summary,
            "guarantee": workload.guarantee.value,
            "delivery": workload.delivery.value,
            "stages": [
                {
                    "name": stage.name,
                    "reads": list(stage.reads),
                    "writes": list(stage.writes),
                    "delivery": workload.delivery_of(stage).value,
                }
                for stage in workload.stages
            ],
            "topics": list(workload.topics),
            "tables": [{"name": name, "store": kind} for name, kind in workload.tables.items()],
            "clients": list(CLIENTS),
            "defects": [name for name, defect in registry.defects().items() if defect.fits(workload)],
        }
        for workload in registry.workloads().values()
    ]


def _defects() -> list[dict[str, Any]]:
    return [
        {
            "name": defect.name,
            "summary": defect.summary,
            "workloads": [name for name, workload in registry.workloads().items() if defect.fits(workload)],
            "clients": sorted(defect.clients),
            "anomalies": sorted(defect.anomalies),
        }
        for defect in registry.defects().values()
    ]


def _kafka() -> list[dict[str, Any]]:
    return [
        {
            "name": kafka.version,
            "summary": kafka.summary,
            "line": kafka.line,
            "transaction_versions": list(kafka.transaction_versions),
            "transaction_default": kafka.transaction_default,
            "consumer_protocol": kafka.consumer_protocol,
            "java": kafka.java,
        }
        for kafka in map(kafka_version, registry.kafka_versions())
    ]


def _clients() -> list[dict[str, Any]]:
    unversioned = [
        {"name": name, "summary": words.removeprefix("which is "), "client": name, "package": PACKAGES[name]}
        for name, words in UNVERSIONED.items()
    ]
    return unversioned + [
        {
            "name": client.name,
            "summary": client.summary,
            "client": client.client,
            "package": PACKAGES[client.client],
            "version": client.version,
            "librdkafka": client.library,
            "notes": client.notes,
        }
        for client in client_versions()
    ]


def _apis() -> list[dict[str, Any]]:
    """The APIs of the default version of Kafka, whose jar is fetched if it is not here yet."""
    schemas = Schemas.of_jar(fetch_kafka(Options().kafka, cache_folder()).clients_jar)
    return [
        {
            "name": api.name,
            "summary": f"key {api.key}, versions {api.request.versions.first} to {api.request.versions.last}",
            "request": list(api.request.paths),
            "response": list(api.response.paths),
            "errors": sorted(possible_errors().get(api.name, ())),
        }
        for api in map(schemas.api, schemas.names)
        if api.request.versions.last >= 0
    ]
