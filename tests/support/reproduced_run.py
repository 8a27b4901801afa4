"""A small invalid run of a user's pipeline, with a secret in each place that a reproducer could show."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from msgspec import structs

from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport, Validity, Verdict
from reports.reproducer.known_places import Machine
from tests.support.findings import findings_of
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import write_store

SECRETS = {
    "client config": "plant-client-1",
    "JAAS configuration": "plant-jaas-2",
    "broker override": "plant-broker-3",
    "environment of a stage": "plant-stage-4",
    "environment of this machine": "plant-machine-5",
    "flag of a command": "plant-flag-6",
    "definition in a command": "plant-define-7",
    "URL": "plant-url-8",
    "line of a log": "plant-log-9",
    "error": "plant-error-10",
    "topic config": "plant-topic-11",
    "source": "plant-source-12",
}
"""By place: a secret."""
CONTENTS = {"key": "kelvin-13", "value": "tesla-14", "header": "faraday-15"}
"""By part of a record: its content."""
PRIVATE = {
    "user": "planteduser",
    "host": "planted-host",
    "domain": "planted.corp.example",
    "address": "10.77.66.55",
    "path": "plantedteam",
    "variable": "plant-variable-16",
    "mail": "planted.person",
}
"""Names that no reproducer may have."""
SOURCE = """import sys
PASSWORD = "plant-source-12"
# written by planted.person@planted.corp.example
print(sys.argv, "at 10.77.66.55")
"""


@dataclass(frozen=True)
class ReproducedRun:
    """The run, and where it lies."""

    folder: Path
    project: Path  # the folder of the pipeline file
    machine: Machine
    verdict: Verdict


def reproduced_run(root: Path) -> ReproducedRun:
    """Write the run, its pipeline and its client config."""
    home = root / "home" / PRIVATE["user"]
    project = home / f"billing of {PRIVATE['path']}"
    project.mkdir(parents=True)
    folder = home / "store" / "billing" / "20261127T100000Z"
    folder.mkdir(parents=True)
    machine = Machine(
        str(home),
        PRIVATE["user"],
        PRIVATE["host"],
        {"SERVICE_PASSWORD": SECRETS["environment of this machine"]},
    )
    _write_project(project)
    (project / "client.properties").write_text(
        f"bootstrap.servers=kafka1.{PRIVATE['domain']}:9093\nsasl.password={SECRETS['client config']}\n"
        f'sasl.jaas.config=Module required username="u" password="{SECRETS["JAAS configuration"]}";\n'
    )
    _write_tables(folder)
    _write_plan(folder, project)
    _write_logs(folder, project)
    fault = FaultReport(
        "kill-broker", "broker 2", 0.001, 0.004, True,
        f"process 4711 on {PRIVATE['host']} ended", f"broker 2 at {PRIVATE['address']}:9092 was killed",
        {"broker": "2", "state": "PrepareCommit"},
    )  # fmt: skip
    versions = {
        "fencepost": "0.1.0",
        "kafka": "4.4.0",
        "java": f"17 ({home}/jdk)",
        "confluent-kafka": "2.9.0",
    }
    RunMetadata(faults=[fault], versions=versions).save(folder / "metadata.json")
    verdict = _verdict(folder, fault)
    verdict.save(folder / "verdict.json")
    return ReproducedRun(folder, project, machine, verdict)


def _write_project(project: Path) -> None:
    (project / "pipeline.toml").write_text(tomli_w.dumps(pipeline_document(project)))
    (project / "billing.py").write_text(SOURCE)
    (project / "expect.py").write_text("def purchase(rng, n):\n    return str(n), b'{}'\n")
    (project / "billing").write_bytes(b"\x7fELF\0" + b"\0" * 100)
    (project / ".env").write_text(f"PASSWORD={SECRETS['environment of a stage']}\n")
    (project / "node_modules" / "kafkajs").mkdir(parents=True)
    (project / "node_modules" / "kafkajs" / "index.js").write_text("exports.kafka = 1\n")
    package = {"dependencies": {"kafkajs": "2.2.4"}, "author": PRIVATE["mail"], "version": "1.0.0"}
    (project / "package.json").write_text(json.dumps(package))


def pipeline_document(project: Path) -> dict[str, Any]:
    """Return the pipeline file."""
    return {
        "name": "billing",
        "stage": [
            {
                "name": "s",
                "reads": ["a"],
                "writes": ["x"],
                "group": "g",
                "transactional_id": "id-{instance}",
                "command": [
                    "python3", f"{project}/billing.py", "{bootstrap}", "--password", SECRETS["flag of a command"],
                    f"-Dsasl.password={SECRETS['definition in a command']}",
                ],
                "env": {"DATABASE": SECRETS["environment of a stage"], "BROKERS": "{bootstrap}"},
            }
        ],
        "inputs": {"a": {"make": "expect.py:purchase"}},
        "topics": {"x": {"config": {"some.password": SECRETS["topic config"], "retention.ms": "-1"}}},
    }  # fmt: skip


def _write_tables(folder: Path) -> None:
    history = History()
    history.feed(2)
    history.transact(0, 1, transactional_id="id-1")
    history.alter("stages", lambda row: row | {"journaled": False})
    content = f'{CONTENTS["key"]}: {{"customer": "{CONTENTS["value"]}", "total": 54321}}'
    output = {"value": None, "inputs": [], "key": CONTENTS["key"], "content": content}
    history.alter(
        "records",
        lambda row: (
            row | output | {"correlation_key": CONTENTS["header"]} if row["tp"] == history.tp["x"] else row
        ),
    )
    history.alter(
        "expected",
        lambda row: row | {"correlation_key": CONTENTS["header"], "key": CONTENTS["key"], "content": content},
    )
    write_store(folder, [(1, history)], log=True)


def _write_plan(folder: Path, project: Path) -> None:
    plan = {
        "options": {
            "workload": "shop",
            "pipeline": str(project / "pipeline.toml"),
            "client-config": str(project / "client.properties"),
            "bootstrap": f"kafka1.{PRIVATE['domain']}:9093,kafka2.{PRIVATE['domain']}:9093",
            "store": str(folder.parent.parent),
            "mirror": f"https://<redacted>@{PRIVATE['domain']}/maven",
            "seed": 7,
            "nemesis": ["kill-broker"],
            "rule": ["api=EndTxn,fields.Committed=false,action=hold,release.after=EndTxn response"],
            "broker": {"ssl.keystore.password": "<redacted>", "log.dir": str(project), "num.io.threads": "4"},
        },
        "run": {
            "id": 1,
            "command": f"fencepost run --pipeline {project}/pipeline.toml",
            "wall_ms_at_zero": WALL_MS,
            "monotonic_ns_at_zero": 0,
        },
        "workload": {
            "name": "billing",
            "topics": ["a", "x"],
            "stages": [{"name": "s", "group": "g", "workers": ["s-1"], "transactional_ids": {"s-1": "id-1"}}],
            "topic": [{"name": "x", "config": {"some.password": SECRETS["topic config"]}}],
        },
        "schedule": [
            {
                "fault": "kill-broker",
                "target": "leader:x/0",
                "start_s": 1.0,
                "hold_s": 2.0,
                "state": "Ongoing",
            }
        ],
    }
    (folder / "run.toml").write_text(tomli_w.dumps(plan))


def _write_logs(folder: Path, project: Path) -> None:
    broker = folder / "brokers" / "1"
    broker.mkdir(parents=True)
    (broker / "server.properties").write_text(
        f"node.id=1\nlisteners=A://127.0.0.1:21200\nssl.keystore.password={SECRETS['broker override']}\n"
        f"advertised.listeners=A://kafka1.{PRIVATE['domain']}:9093\n"
    )
    at = "1970-01-01T00:16:40.005Z"
    lines = [
        f"{at} INFO id-1 from /{PRIVATE['address']}:45678 via kafka1.{PRIVATE['domain']}:9093 and 127.0.0.1:21200",
        f"{at} WARN the key store was opened with {SECRETS['broker override']} ({PRIVATE['user']})",
        f"{at} ERROR password={SECRETS['line of a log']} in {folder}/brokers/1/data/x-0 and {project}/x.jks",
        f"{at} INFO principal=User:{PRIVATE['mail']} host.name={PRIVATE['host']} rack: {PRIVATE['path']}",
    ]
    (broker / "server.log").write_text("\n".join(lines) + "\n")
    (folder / "workers").mkdir()
    lines = [
        f"ERROR connected to postgres://u:{SECRETS['URL']}@{PRIVATE['domain']}/db",
        f"ERROR of id-1: {SECRETS['client config']} {SECRETS['JAAS configuration']}",
        f"ERROR {SECRETS['environment of a stage']} {SECRETS['environment of this machine']}",
        f"ERROR DATABASE_URL={PRIVATE['variable']} ~{PRIVATE['user']}/x",
        f"ERROR for customer {CONTENTS['value']} with {CONTENTS['key']} and {CONTENTS['header']}, total 54321",
        f"ERROR of {{'header': '{CONTENTS['header']}'}}",
        json.dumps({"level": "error", "message": f"no {CONTENTS['value']}", "customer": "unknown-plant-17"}),
        f'  File "{project}/billing.py", line 42, in send, by {PRIVATE["mail"]}@{PRIVATE["domain"]} error',
    ]
    (folder / "workers" / "s-1.0.log").write_text("\n".join(lines) + "\n")


def _verdict(folder: Path, fault: FaultReport) -> Verdict:
    content = f'{CONTENTS["key"]}: {{"customer": "{CONTENTS["value"]}"}}'
    record = {
        "topic": "x",
        "partition": 0,
        "offset": 0,
        "content": content,
        "producer_id": 1,
        "fate": "commit",
    }
    due = [{"topic": "x", "slot": "x", "key": CONTENTS["key"], "content": f"expected {content}"}]
    small = {"record": record, "input": {"topic": "a", "partition": 0, "offset": 0, "due": due}, "slot": "x"}
    error = f"sasl.password={SECRETS['error']} was refused by kafka1.{PRIVATE['domain']}:9093"
    large = {**small, "operation": {"name": "s-1.0:3", "error": error, "transactional_id": "id-1"}}
    findings = findings_of(
        2, [large, small], words="2 records are not what was sent", meaning="The content differs.",
        sentences=[f"the content is {content}", f"the content of x/0 offset 0 is {content}"],
    )  # fmt: skip
    return Verdict(
        history=str(folder),
        name="billing",
        seed=7,
        valid=Validity.INVALID.json,
        summary=f"2 records are not what was sent, after broker 2 at {PRIVATE['address']}:9092 was killed",
        anomalies={
            "corrupt": findings,
            "lost-input": structs.replace(findings_of(1, [small]), because="corrupt"),
        },
        faults=[fault],
    )
