"""The process that holds the cluster of a session: it says where the cluster is, and ends with its standard input."""

import json
import os
import shlex
from dataclasses import replace
from typing import Any

from fencepost.command_line import command_line
from fencepost.lifeline import await_the_end
from fencepost.preparing import prepare_cluster
from harness.cluster import ClusterSpec
from harness.cluster.kinds.kind import ClusterParts
from harness.cluster.kinds.registry import CLUSTERS
from harness.environment.cache import cache_folder
from harness.environment.doctor import DISK_MB, memory_mb
from harness.environment.ports import PortBlock
from harness.environment.resources import require
from harness.errors import UsageError
from harness.processes.guardian import sweep_leftovers
from harness.processes.spawn import Supervisor
from harness.runner.progress import Progress
from harness.settings.options import FIELDS, Options

KEYS = (
    *("cluster", "image", "kafka", "brokers", "broker", "heap-mb", "transaction-version"),
    *("java", "toxiproxy", "mirror", "first-port"),
)
"""What says what a cluster is; everything else is a run's."""
OF_RUNS = ("cluster", "image", "brokers", "broker", "heap-mb", "transaction-version")
"""Of these, what a run on a cluster of its own would have to be given as well."""
READY_TIMEOUT_S = 60.0


def require_of_a_cluster(options: Options) -> None:
    """Raises `UsageError` for an option of a run, and for a kind of cluster that is there already."""
    default = Options()
    for key, field in FIELDS.items():
        if key not in KEYS and getattr(options, field.name) != getattr(default, field.name):
            raise UsageError(f"a session's cluster takes {', '.join(KEYS)}; give {key} to the run")
    if CLUSTERS[options.cluster].shared:
        raise UsageError(
            f"a session's cluster is one that is started, and --cluster {options.cluster} is there already: "
            "give cluster and bootstrap to the run"
        )


def hold(options: Options, progress: Progress) -> None:
    """Start it, say in a line of JSON where it is, and end it when standard input ends. Raises `FencepostError`."""
    parent = os.getppid()
    require_of_a_cluster(options)
    cache = cache_folder()
    for left in sweep_leftovers():
        progress.say(f"ended what an earlier run had left: {left}")
    prepared = prepare_cluster(options, cache, progress.say, clients=())
    with Supervisor() as supervisor, PortBlock(cache, first_port=options.first_port) as ports:
        folder = supervisor.scratch_folder("session")
        require(memory_mb(options.brokers), DISK_MB, folder)
        spec = ClusterSpec(
            brokers=options.brokers,
            kafka=options.kafka,
            settings=options.settings,
            heap_mb=options.heap_mb,
            transaction_version=options.transaction_version,
        )
        parts = ClusterParts(spec, folder, prepared, supervisor, ports.take)
        with CLUSTERS[options.cluster].open(parts) as cluster:
            cluster.create_topics([], READY_TIMEOUT_S)  # its coordinators are up before the first run comes
            told = {"bootstrap": cluster.bootstrap, "cluster": options.cluster, "kafka": options.kafka}
            _say({**told, "more": more_of(options)})
            await_the_end(parent)


def more_of(options: Options) -> list[str]:
    """Return the options that say what the cluster is, but for its version, as words of a command without secrets."""
    default = Options()
    named = (FIELDS[key].name for key in OF_RUNS)
    kept = replace(default, **{name: getattr(options, name) for name in named})
    return shlex.split(command_line(kept.redacted()))[2:]


def _say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)
