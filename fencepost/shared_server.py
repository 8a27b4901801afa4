"""The shared server. A thread serves each request. Spark and the cluster start when a request first needs them."""

import json
import logging
import os
import select
import shlex
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import registry
from fencepost.checks.check_stored_runs import check_stored_runs, open_evidence
from fencepost.checks.evidence import Evidence
from fencepost.checks.spark import INSTALLATION, SparkParts, SparkRequest, result_as_json, start_early
from fencepost.registry import command_line
from fencepost.runs.preparing import prepare_cluster
from fencepost.sharing import MESSAGE_FILE, SharedCluster
from harness.cluster import ClusterSpec
from harness.cluster.kinds.kind import ClusterParts
from harness.cluster.kinds.registry import CLUSTERS, check_brokers_option
from harness.common.documents import decode
from harness.common.errors import EnvironmentFailure, FencepostError, UsageError
from harness.environment.cache import cache_folder
from harness.environment.doctor import DISK_MB, memory_mb
from harness.environment.java import find_java
from harness.environment.resources import PortBlock, require
from harness.processes.guardian import sweep_leftovers
from harness.processes.spawn import Supervisor
from harness.results.verdict import Verdict
from harness.settings.options import FIELDS, Options, parse_set

if TYPE_CHECKING:
    from checkers.spark.session import StartingSpark

log = logging.getLogger(__name__)

SendMessage = Callable[[dict[str, Any]], None]
"""Sends a line to a client. It never raises, because other clients may wait for what this request started."""
PARENT_CHECK_S = 1.0
"""Interval at which the server checks whether its parent process is alive."""
CLUSTER_KEYS = (
    *("cluster", "image", "kafka", "brokers", "broker", "heap-mb", "transaction-version"),
    *("java", "toxiproxy", "mirror", "first-port"),
)
"""Options that describe a cluster. All others belong to a run."""
REPEATED_KEYS = ("cluster", "image", "brokers", "broker", "heap-mb", "transaction-version")
"""Options that the command which repeats a run must name, so that it starts an equal cluster."""
READY_TIMEOUT_S = 60.0


class SparkService:
    """One Spark for all clients with equal settings. It serves one client at a time."""

    def __init__(self) -> None:
        self._state_lock = threading.Lock()
        self._check_lock = threading.Lock()
        self._parts: SparkParts | None = None
        self._pending: StartingSpark | None = None

    def answer(self, request: SparkRequest, send_message: SendMessage) -> None:
        """Carry out a request and send the result."""
        with self._check_lock if request.runs else nullcontext():
            try:
                pending = self._ensure_started(request.parts)
                if pending is None:
                    why = "the shared Spark has another Java or other settings, or belongs to another installation"
                    send_message({"refused": why})
                    return
                results = self._check(pending, request, send_message) if request.runs else []
            except EnvironmentFailure as error:
                # This client starts its own Spark. For the next client, this server starts a new Spark.
                self._forget()
                send_message({"refused": f"the shared Spark is gone: {error}"})
            except FencepostError as error:
                send_message({"refused": str(error)})
            else:
                send_message({"results": [result_as_json(result) for result in results]})

    def close(self) -> None:
        """End Spark at once, even in the middle of a job."""
        with self._state_lock:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending.kill()
            pending.close()

    def _ensure_started(self, parts: SparkParts) -> "StartingSpark | None":
        """The shared Spark, which may still be starting. None if it has settings other than `parts`."""
        with self._state_lock:
            if self._pending is None and parts.installation == INSTALLATION:
                self._pending = start_early(find_java(parts.java_home), parts.master, parts.conf, inputs=0)
                self._parts = parts
            return self._pending if self._parts == parts else None

    def _forget(self) -> None:
        with self._state_lock:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending.close()

    def _check(
        self, pending: "StartingSpark", request: SparkRequest, send_message: SendMessage
    ) -> list[Verdict | FencepostError]:
        """A result for each run. Raises `EnvironmentFailure` if Spark is gone."""
        evidence_or_errors = [_open(Path(folder)) for folder in request.runs]
        runs = [run for run in evidence_or_errors if not isinstance(run, FencepostError)]
        allow = frozenset(request.allow)
        results = check_stored_runs(
            pending.session(), runs, allow, lambda name: send_message({"progress": name}), request.examples
        )
        if failure := next((result for result in results if isinstance(result, EnvironmentFailure)), None):
            raise failure
        remaining = iter(results)
        return [run if isinstance(run, FencepostError) else next(remaining) for run in evidence_or_errors]


def _open(folder: Path) -> Evidence | FencepostError:
    try:
        return open_evidence(str(folder), folder)
    except FencepostError as error:
        return error


class ClusterService:
    """One cluster for all clients. All clients must name the same options."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._words: Sequence[str] | None = None
        self._answer: dict[str, Any] = {}

    def answer(self, words: Sequence[str], send_message: SendMessage) -> None:
        """Send the address of the cluster, or why it did not start. All clients get the answer of the first start."""
        with self._lock:
            if self._words is None:
                self._answer, self._words = self._start(words, send_message), words
            answer, first_words = self._answer, self._words
        if words != first_words:
            why = (
                "the tests of a session share one cluster, so fencepost_cluster_options must not differ; "
                f"it was {shlex.join(first_words)} and {shlex.join(words)}"
            )
            answer = {"refused": why, "status": int(UsageError.exit_status)}
        send_message(answer)

    def close(self) -> None:
        """End the cluster. If it is starting, wait until it has started."""
        with self._lock:
            self._stack.close()

    def _start(self, words: Sequence[str], send_message: SendMessage) -> dict[str, Any]:
        try:
            options = cluster_options(words)
            starting = open_cluster(options, lambda text: send_message({"progress": text}))
            return {"cluster": asdict(self._stack.enter_context(starting))}
        except FencepostError as error:
            why = f"the session's cluster did not start: {error}"
            return {"refused": why, "status": int(error.exit_status)}


def cluster_options(words: Sequence[str]) -> Options:
    """Parse the options that a client sends. Raises `UsageError` for an option of a run, or an external cluster."""
    options = Options()
    keys: list[str] = []
    for flag, assignment in zip(words[::2], words[1::2], strict=False):
        if flag != "--set":  # an option of `check`
            raise UsageError(f"a session's cluster takes {', '.join(CLUSTER_KEYS)}; give {flag} to the run")
        values = parse_set(assignment)
        options = options.updated(values)
        keys += values
    check_brokers_option(options.cluster, keys)
    options = options.validated(registry.known_names())
    default = Options()
    for key, field in FIELDS.items():
        if key not in CLUSTER_KEYS and getattr(options, field.name) != getattr(default, field.name):
            raise UsageError(f"a session's cluster takes {', '.join(CLUSTER_KEYS)}; give {key} to the run")
    if CLUSTERS[options.cluster].shared:
        raise UsageError(
            f"a session starts its own cluster, so it cannot be of kind {options.cluster}: "
            "set cluster and bootstrap as options of the run"
        )
    return options


@contextmanager
def open_cluster(options: Options, say: Callable[[str], None]) -> Iterator[SharedCluster]:
    """Start a cluster, and end it with the `with` block. Raises `FencepostError`."""
    cache = cache_folder()
    for leftover in sweep_leftovers():
        say(f"ended what an earlier run had left: {leftover}")
    prepared = prepare_cluster(options, cache, say, clients=())
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
            cluster.create_topics([], READY_TIMEOUT_S)  # wait until the coordinators are ready
            yield SharedCluster(cluster.bootstrap, options.cluster, options.kafka, cluster_words(options))


def cluster_words(options: Options) -> list[str]:
    """The options that describe the cluster, except its version, as arguments of a command. Without secrets."""
    default = Options()
    names = (FIELDS[key].name for key in REPEATED_KEYS)
    cluster_only = replace(default, **{name: getattr(options, name) for name in names})
    return shlex.split(command_line(cluster_only.redacted()))[2:]


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves on a socket that already listens."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket) -> None:
        self.spark, self.cluster = SparkService(), ClusterService()
        super().__init__("", Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an unexpected exception. The server continues."""
        log.exception("a request could not be carried out")


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Read a request, and write the answer line by line."""
        assert isinstance(self.server, Server)
        try:
            line = self.rfile.readline()
            if not line:
                return  # the client connected only to start the server
            body = json.loads(line)
            words = [str(word) for word in body.get("cluster", ())]
            request = decode(body["spark"], SparkRequest) if "cluster" not in body else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._send_message({"refused": f"this line is not a request: {type(error).__name__}: {error}"})
            return
        if request is None:
            self.server.cluster.answer(words, self._send_message)
        else:
            self.server.spark.answer(request, self._send_message)

    def _send_message(self, body: dict[str, Any]) -> None:
        try:
            self.wfile.write(json.dumps(body).encode() + b"\n")
        except OSError as error:
            log.info("the client is gone: %s", error)


def serve(path: Path, listener: socket.socket) -> None:
    """Serve until standard input has a line or ends, or until the parent process has ended.

    The end of standard input alone is not enough, because a forked child of the parent may hold the pipe open.
    """
    parent = os.getppid()
    listener.set_inheritable(False)
    server = Server(listener)
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    while os.getppid() == parent:
        if select.select([sys.stdin.buffer], [], [], PARENT_CHECK_S)[0]:
            break
    server.spark.close()
    server.cluster.close()
    with suppress(OSError):  # the parent process removes the folder, unless it was killed
        path.with_name(MESSAGE_FILE).unlink(missing_ok=True)
        path.unlink()
        path.parent.rmdir()
