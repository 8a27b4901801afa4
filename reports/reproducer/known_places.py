"""Find the folders, hosts, users and secrets that a run and this machine know, so that they can be removed."""

import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path
from typing import Any

from harness.record.table_reader import RunTables
from reports.known_secrets import known_secrets, read_properties
from reports.reproducer.cleaning import PATH, Cleaning

PATH_OPTIONS = ("store", "client-config", "java", "toxiproxy", "postgres", "pipeline", "schedule")
PLAIN_USERS = frozenset(
    {"root", "kafka", "user", "admin", "nobody", "runner", "ubuntu", "docker", "app", "node"}
)
"""Names of users that tell nothing about anybody."""
PLAIN_HOSTS = frozenset({"localhost", "kafka", "broker", "docker", "node", "host"})
_HOME_OF = re.compile(r"/(?:home|Users)/([^/\s]+)")
_LISTENER = re.compile(r"\w+://(?P<host>[^,/]*):(?P<port>\d+)")


@dataclass(frozen=True)
class Machine:
    """What must not become public of the machine on which a reproducer is made."""

    home: str
    user: str
    host: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> "Machine":
        """Return this machine."""
        try:
            user = getuser()
        except (OSError, KeyError):  # no name for the number of the user
            user = ""
        return cls(str(Path.home()), user, socket.gethostname(), dict(os.environ))


def cleaning_of(
    folder: Path, settings: Mapping[str, Any], machine: Machine, *, with_values: bool
) -> Cleaning:
    """Return the cleaning for a run.

    Args:
        folder: the folder of the run
        settings: the content of its `run.toml`
        machine: this machine
        with_values: whether contents of records stay
    """
    options: Mapping[str, Any] = settings.get("options", {})
    properties = [read_properties(file) for file in sorted(folder.glob("brokers/*/server.properties"))]
    client = read_properties(Path(str(options["client-config"]))) if "client-config" in options else {}
    pipeline = Path(str(options["pipeline"])) if "pipeline" in options else None
    texts = [str(options.get(key, "")) for key in PATH_OPTIONS]
    texts += [str(settings.get("run", {}).get("command", "")), machine.home]
    hosts = {machine.host, machine.host.partition(".")[0], *_hosts_of(options, client)}
    users = {machine.user, *(user for text in texts for user in _HOME_OF.findall(text))}
    return Cleaning(
        folders=_folders(folder, options, pipeline, machine),
        brokers=_brokers(options, properties),
        hosts={host for host in hosts if len(host) > 2} - PLAIN_HOSTS,
        users={user for user in users if len(user) > 1} - PLAIN_USERS,
        secret_values=known_secrets(folder, options, machine.environment),
        names=_names(folder, settings),
        with_values=with_values,
    )


def _folders(
    folder: Path, options: Mapping[str, Any], pipeline: Path | None, machine: Machine
) -> dict[str, str]:
    """Return by folder what replaces it. Folders in a run and beside a pipeline file become relative paths."""
    folders = {machine.home: PATH, str(Path.cwd()): PATH}
    for key in PATH_OPTIONS:
        value = str(options.get(key, ""))
        if value.startswith(("/", "~")):
            folders[value] = PATH
    folders |= {str(path): "" for path in (folder, folder.resolve()) if path.is_absolute()}
    if pipeline is not None:
        folders.pop(str(pipeline), None)
        folders |= {
            str(path): "" for path in (pipeline.parent, pipeline.resolve().parent) if path.is_absolute()
        }
    return {path: by for path, by in folders.items() if len(path.rstrip("/")) > 1}


def _hosts_of(options: Mapping[str, Any], client: Mapping[str, str]) -> Iterator[str]:
    """Yield the hosts in the addresses of an external cluster, of a mirror and of a Spark master."""
    yield from re.findall(
        r"(?:^|,|://(?:[^@/]*@)?)([\w.-]+):\d+",
        f"{options.get('bootstrap', '')},{client.get('bootstrap.servers', '')}",
    )
    for text in (str(options.get("mirror", "")), str(options.get("master", "")), *client.values()):
        yield from re.findall(r"://(?:[^@/\s]*@)?([\w-]+(?:\.[\w-]+)*)", text)


def _brokers(options: Mapping[str, Any], properties: list[dict[str, str]]) -> dict[str, str]:
    """Return by address the name of its broker."""
    brokers = {
        address: f"broker-{number}:9092"
        for number, address in enumerate(filter(None, str(options.get("bootstrap", "")).split(",")), 1)
    }
    for table in properties:
        name = f"broker-{table.get('node.id', table.get('broker.id', '0'))}:9092"
        for listener in _LISTENER.finditer(table.get("listeners", "")):
            brokers[f"{listener['host']}:{listener['port']}"] = name
        # An advertised address may be a proxy, which leads to this broker.
        for listener in _LISTENER.finditer(table.get("advertised.listeners", "")):
            brokers[f"{listener['host']}:{listener['port']}"] = name
    return brokers


def _names(folder: Path, settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of topics, groups, transactional ids, stages and workers."""
    workload = settings.get("workload", {})
    names = {str(topic) for topic in workload.get("topics", ())}
    for stage in workload.get("stages", ()):
        names |= {str(stage.get("name")), str(stage.get("group")), *map(str, stage.get("workers", ()))}
        names |= set(map(str, stage.get("transactional_ids", {}).values()))
    names |= {path.name.removesuffix(".log") for path in folder.glob("workers/*.log")}
    tables = RunTables(folder)
    if tables.exists("transactions"):
        ids = tables.table("transactions", ["transactional_id"])["transactional_id"].unique().to_pylist()
        names |= {name for name in ids if name is not None}
    return frozenset(names)
