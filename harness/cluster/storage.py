"""Format a node's data folder without starting a JVM.

Kafka's `StorageTool format` takes about a second for each node. It writes two files. The checkpoint has the features of
a new cluster. It depends only on the Kafka version and the transaction version, so it is made once and cached. Until
Kafka 4.3 it is `bootstrap.checkpoint`; from 4.4 on, it is the first snapshot of the metadata log. `meta.properties` has
only the ids of cluster and node.
"""

import base64
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka.record import MemoryRecords

from harness.cluster.start_diagnosis import diagnosis
from harness.common.errors import StartFailed
from harness.environment.cache import provide
from harness.witness.internal_topics import FieldReader

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
