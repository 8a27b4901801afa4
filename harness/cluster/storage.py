"""Format a node's data folder without starting a JVM.

Kafka's `StorageTool format` takes about a second for each node. It writes two files. `bootstrap.checkpoint` has the
features of a new cluster. It depends only on the Kafka version and the transaction version, so it is made once and
cached. `meta.properties` has only the ids of cluster and node.
"""

import base64
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.cluster.start_diagnosis import diagnosis
from harness.common.errors import StartFailed
from harness.environment.cache import provide

CHECKPOINT = "bootstrap.checkpoint"
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


def bootstrap_checkpoint(
    cache: Path,
    kafka: str,
    storage_tool: Callable[[Path], Sequence[str]],
    transaction_version: int | None = None,
) -> bytes:
    """Return the content of `bootstrap.checkpoint`, from the cache or made by StorageTool.

    Args:
        cache: The folder of the cache. If the file is not in the cache, it is made and stored.
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
    return (cached / CHECKPOINT).read_bytes()


def _make(
    folder: Path, storage_tool: Callable[[Path], Sequence[str]], feature_options: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        data = Path(scratch) / "data"
        config = Path(scratch) / "server.properties"
        config.write_text(_FORMAT_ONLY.format(data=data))
        command = [
            *storage_tool(Path(scratch)),
            "format",
            f"--cluster-id={new_id()}",
            "--config",
            str(config),
            *feature_options,
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailed(f"Kafka's StorageTool did not run: {error}") from error
        checkpoint = data / CHECKPOINT
        if result.returncode or not checkpoint.exists():
            reason = diagnosis(result.stdout + result.stderr)
            raise StartFailed(f"Kafka's StorageTool could not format a data folder: {reason}")
        checkpoint.rename(folder / CHECKPOINT)


def node_files(cluster_id: str, node: int, checkpoint: bytes) -> dict[str, bytes]:
    """Return the files that StorageTool writes to a node's data folder: content by name."""
    properties = f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={new_id()}\n"
    return {CHECKPOINT: checkpoint, "meta.properties": properties.encode()}


def format_node(data_dir: Path, cluster_id: str, node: int, checkpoint: bytes) -> None:
    """Create a node's data folder as StorageTool does."""
    data_dir.mkdir(parents=True)
    for name, content in node_files(cluster_id, node, checkpoint).items():
        (data_dir / name).write_bytes(content)
