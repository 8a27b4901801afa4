"""A Spark standalone cluster on this machine: a master, and two workers of one core each."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from checkers.spark.session import require_full_jdk
from harness.common.errors import StartFailed
from harness.common.waiting import wait_for
from harness.environment.java import find_java, last_line
from harness.processes.child import Child
from harness.processes.spawn import Supervisor

SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
START_TIMEOUT_S = 120.0
WORKERS = ("worker-1", "worker-2")


@contextmanager
def spark_cluster(folder: Path, memory: str = "1g") -> Iterator[str]:
    """Start a cluster, and yield the URL of its master. It ends with the block, even if this process is killed.

    Args:
        folder: gets the logs and the work folders
        memory: of each worker

    Raises:
        EnvironmentFailure: Java is no full JDK, or a part of the cluster did not start.
    """
    home = find_java("auto").home
    require_full_jdk(home / "bin" / "java")
    env = {
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "512m",
        "PYTHONPATH": "",
    }

    def start(name: str, main: str, *arguments: str) -> Child:
        anywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        command: list[str | Path] = [
            SPARK_HOME / "bin" / "spark-class",
            f"{DEPLOY}.{main}",
            *anywhere,
            *arguments,
        ]
        (folder / name).mkdir(parents=True)
        return supervisor.spawn(
            command, name=name, log_file=folder / f"{name}.log", env=env, cwd=folder / name
        )

    with Supervisor() as supervisor:
        url = wait_for_output(start("master", "master.Master"), r"Starting Spark master at (spark://\S+)")
        options = ("--cores", "1", "--memory", memory, "--work-dir")
        workers = [start(name, "worker.Worker", *options, str(folder / name), url) for name in WORKERS]
        for worker in workers:
            wait_for_output(worker, r"Successfully registered with master (\S+)")
        yield url


def wait_for_output(child: Child, words: str) -> str:
    """Wait until the output of a process matches `words`, and return the first group of the match."""
    log = child.log_file
    assert log is not None

    def first_match() -> str | None:
        match = re.search(words, log.read_text(encoding="utf-8"))
        if not match and child.poll() is not None:
            raise StartFailed(f"{child.name} ended: {last_line(log)}")
        return match[1] if match else None

    return wait_for(
        first_match, f"{child.name} to say {words}", START_TIMEOUT_S, last_seen=lambda: last_line(log)
    )
