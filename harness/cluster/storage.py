"""A node's data folder, formatted without a JVM of its own each time.

`StorageTool format` costs about a second a node. What it writes is two files: the features of a
new cluster (`bootstrap.checkpoint`, the same for every cluster of one Kafka version and transaction version,
so it is made once and cached) and `meta.properties`, which only names the cluster and the node.
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
    """An id as Kafka makes them: a random UUID in 22 letters, the first of which is no hyphen."""
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
    """What a new cluster of a Kafka version can do: from the cache, or made by StorageTool and put there.

    `storage_tool` gives the command line up to and with the tool's class; its JVM may write to the
    folder that is handed in. `transaction_version`: of the feature `transaction.version`; None: Kafka's own choice.
    Raises `StartFailed`.
    """
    chosen = (
        [] if transaction_version is None else ["--feature", f"transaction.version={transaction_version}"]
    )
    name = f"features-{kafka}" + (f"-transactions-{transaction_version}" if chosen else "")
    place = provide(cache, name, lambda folder: _make(folder, storage_tool, chosen))
    return (place / CHECKPOINT).read_bytes()


def _make(folder: Path, storage_tool: Callable[[Path], Sequence[str]], chosen: Sequence[str]) -> None:
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
            *chosen,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailed(f"Kafka's StorageTool did not run: {error}") from error
        made = data / CHECKPOINT
        if done.returncode or not made.exists():
            words = diagnosis(done.stdout + done.stderr)
            raise StartFailed(f"Kafka's StorageTool could not format a data folder: {words}")
        made.rename(folder / CHECKPOINT)


def node_files(cluster_id: str, node: int, checkpoint: bytes) -> dict[str, bytes]:
    """What StorageTool would have put into a node's data folder, by name."""
    properties = f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={new_id()}\n"
    return {CHECKPOINT: checkpoint, "meta.properties": properties.encode()}


def format_node(data_dir: Path, cluster_id: str, node: int, checkpoint: bytes) -> None:
    """Make a node's data folder what StorageTool would have made it."""
    data_dir.mkdir(parents=True)
    for name, content in node_files(cluster_id, node, checkpoint).items():
        (data_dir / name).write_bytes(content)
