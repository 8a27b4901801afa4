"""The base of brokers that a run starts: their data folder, their state, and why one did not start.

Kafka's `StorageTool format` takes about a second for each node. It writes two files. The checkpoint has the features of
a new cluster. It depends only on the Kafka version and the transaction version, so it is made once and cached. Until
Kafka 4.3 it is `bootstrap.checkpoint`; from 4.4 on, it is the first snapshot of the metadata log. `meta.properties` has
only the ids of cluster and node.
"""

import base64
import re
import subprocess
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka.record import MemoryRecords

from harness.common.errors import FaultFailed, StartFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.environment.cache import provide
from harness.processes.preload import Preload
from harness.wire.protocol import is_answering
from harness.witness.internal_topics import FieldReader

_CAUSES = (
    (r"address already in use|failed to bind|port is already allocated", "a port is taken"),
    (
        r"insufficient memory|could not reserve|cannot allocate memory|outofmemoryerror|native thread",
        "there is not enough memory: close other programs, or lower --set heap-mb",
    ),
    (r"no space left on device", "the disk is full: make room, or choose another --store"),
    (r"configexception|invalid value", "a broker setting is wrong: check those set with --set broker.*"),
    (r"too many open files", "too many files are open: raise the limit (ulimit -n)"),
)
_ERROR_WORDS = re.compile(r"exception\b|\berror\b|\bfatal\b|caused by", re.IGNORECASE)
_FRAME = re.compile(r"^\s+(at |\.\.\. )")
_LONGEST = 300
_CHECKPOINT = "*.checkpoint"
_FEATURE_LEVEL = 12
"""The key of the message FeatureLevelRecord."""
_TIMEOUT_S = 60.0
_FORMAT_ONLY = """\
node.id=1
process.roles=broker,controller
listeners=HARNESS://127.0.0.1:1,CTL://127.0.0.1:2
listener.security.protocol.map=HARNESS:PLAINTEXT,CTL:PLAINTEXT
inter.broker.listener.name=HARNESS
controller.listener.names=CTL
controller.quorum.voters=1@127.0.0.1:2
log.dirs={data}
"""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_STARTED_MESSAGE = "Kafka Server started"
_VERSION_MESSAGE = re.compile(r"Kafka version: (\S+)")


def port_taken(text: str) -> bool:
    """Return whether a program's output says that another process uses its port."""
    return re.search(_CAUSES[0][0], text, re.IGNORECASE) is not None


def diagnosis(text: str) -> str:
    """Return the last line of a log that reports an error. If its meaning is known, the meaning comes first.

    `a port is taken (Socket server failed to bind to 127.0.0.1:9092: Address already in use.)`
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    if not lines:
        return "it printed nothing"
    for pattern, meaning in _CAUSES:
        for line in reversed(lines):
            if re.search(pattern, line, re.IGNORECASE):
                return f"{meaning} ({_shorten(line)})"
    error_line = next((line for line in reversed(lines) if _ERROR_WORDS.search(line)), lines[-1])
    return _shorten(error_line)


def _shorten(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def new_id() -> str:
    """Make an id as Kafka does: a random UUID in 22 characters that does not begin with a hyphen."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def feature_files(
    cache: Path,
    kafka: str,
    storage_tool: Callable[[Path], Sequence[str]],
    transaction_version: int | None = None,
) -> dict[str, bytes]:
    """Return the checkpoint of a new cluster, from the cache or made by StorageTool: content by path in a data folder.

    Args:
        cache: The folder of the cache. If the checkpoint is not in the cache, it is made and stored.
        kafka: The version of Kafka.
        storage_tool: Returns the command line up to the tool's class. Its argument is a folder for files of the JVM.
        transaction_version: The level of the feature `transaction.version`. None: Kafka's default.

    Raises:
        StartFailed: The tool failed.
    """
    feature_options = (
        [] if transaction_version is None else ["--feature", f"transaction.version={transaction_version}"]
    )
    name = f"features-{kafka}" + (f"-transactions-{transaction_version}" if feature_options else "")
    cached = provide(cache, name, lambda folder: _make(folder, storage_tool, feature_options))
    return {str(file.relative_to(cached)): file.read_bytes() for file in cached.rglob(_CHECKPOINT)}


def feature_levels(files: Mapping[str, bytes]) -> dict[str, int]:
    """Return the level of each feature in the result of `feature_files`.

    Kafka's message FeatureLevelRecord (version 0) is a record of the metadata log. In front of it are three bytes: the
    versions of the frame and of the message, and between them the key of the message.
    """
    levels = {}
    for content in files.values():
        records = MemoryRecords(content)
        while records.has_next():
            batch = records.next_batch()
            for record in () if batch.is_control_batch else batch:
                fields = FieldReader(record.value)
                _, key, _ = fields.int8(), fields.int8(), fields.int8()
                if key == _FEATURE_LEVEL:
                    fields.flexible = True
                    name = fields.string() or ""
                    levels[name] = fields.int16()
    return levels


def _make(
    folder: Path, storage_tool: Callable[[Path], Sequence[str]], feature_options: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        data = Path(scratch) / "data"
        config = Path(scratch) / "server.properties"
        config.write_text(_FORMAT_ONLY.format(data=data), encoding="utf-8")
        command = [
            *storage_tool(Path(scratch)),
            "format",
            f"--cluster-id={new_id()}",
            "--config",
            str(config),
            *feature_options,
        ]
        try:
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailed(f"Kafka's StorageTool did not run: {error}") from error
        if result.returncode:
            reason = diagnosis(result.stdout + result.stderr)
            raise StartFailed(f"Kafka's StorageTool could not format a data folder: {reason}")
        checkpoints = list(data.rglob(_CHECKPOINT))
        if not checkpoints:
            written = sorted(str(file.relative_to(data)) for file in data.rglob("*"))
            raise StartFailed(f"Kafka's StorageTool wrote no {_CHECKPOINT}, but {written}")
        for checkpoint in checkpoints:
            target = folder / checkpoint.relative_to(data)
            target.parent.mkdir(parents=True, exist_ok=True)
            checkpoint.rename(target)


def node_files(cluster_id: str, node: int, features: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that StorageTool writes to a node's data folder: content by path in the folder.

    Args:
        features: The result of `feature_files` for a controller. Empty for a node that is a broker only.
    """
    properties = f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={new_id()}\n"
    return {**features, "meta.properties": properties.encode()}


def format_node(data_dir: Path, cluster_id: str, node: int, features: Mapping[str, bytes]) -> None:
    """Create a node's data folder as StorageTool does."""
    for name, content in node_files(cluster_id, node, features).items():
        file = data_dir / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


class PortTaken(StartFailed):
    """Another process took a port after it was chosen. A start with other ports may succeed."""


class StartedNode(ABC):
    """A broker that has a folder. Its output is appended to `server.log` there at every start."""

    def __init__(self, id_: int, folder: Path, port: int) -> None:
        self._id = id_
        self._folder = folder
        self._port = port
        self._previous_log_bytes = 0  # size of the log file before the last start

    @property
    def id(self) -> int:
        """Its node id. The first is 1."""
        return self._id

    @property
    def data_dir(self) -> Path:
        """The folder with the folders of its partitions."""
        return self._folder / "data"

    @property
    def log_file(self) -> Path:
        """The file with the broker's output of all its starts."""
        return self._folder / "server.log"

    @property
    def preload(self) -> Preload:
        """Raise `FaultFailed`, because no library is preloaded."""
        raise FaultFailed(
            f"broker {self.id} was started without the library that changes its clock and its disk"
        )

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists and is not paused."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether its process exists and is paused."""

    @abstractmethod
    def ended(self) -> bool:
        """Return whether its last process has ended. If so, all its output is in the log file."""

    @abstractmethod
    def resume(self) -> str:
        """Resume it, if it is paused. Return the proof."""

    @abstractmethod
    def _start_process(self) -> None:
        """Start its process without waiting."""

    def start(self) -> None:
        """Start it again with its old data and ports, and wait until it answers requests.

        Do nothing if the broker runs. Resume it if it is paused. Raises `StartFailed`.
        """
        if self.running:
            return
        if self.paused:
            self.resume()
        else:
            self.begin()
        self.await_answer()

    def begin(self) -> None:
        """Start its process without waiting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._previous_log_bytes = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._start_process()

    def await_answer(self) -> None:
        """Wait until it answers requests. Raises `StartFailed`."""

        def answering() -> bool:
            self.check_started()
            return is_answering(self._port, 1.0)

        try:
            wait_for(answering, f"broker {self.id} to answer", START_TIMEOUT_S)
        except WaitTimeout as error:
            raise StartFailed(f"{error}; its log {self.log_file} says: {self._diagnosis()}") from error

    def check_started(self) -> None:
        """Raise `StartFailed` if its process has ended. Raise `PortTaken` if it may start with other ports."""
        if not self.ended():
            return
        kind = PortTaken if port_taken(self._output()) else StartFailed
        raise kind(f"broker {self.id} did not start: {self._diagnosis()}; its log is {self.log_file}")

    def started(self) -> bool:
        """Return whether it has printed that it is up. Then all its listeners are bound."""
        return _STARTED_MESSAGE in self._output()

    def kafka_version(self) -> str:
        """Return the version of Kafka that it has logged since its last start. Empty if there is none yet."""
        found = _VERSION_MESSAGE.search(self._output())
        return found[1] if found else ""

    def _output(self) -> str:
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._previous_log_bytes)
            return log.read().decode(errors="replace")

    def _diagnosis(self) -> str:
        return diagnosis(self._output())
