"""A process of a run ends before it does anything if its client has another version than its spec."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from harness.processes.messages import encode
from harness.processes.specs import ClientSpec, ObserverSpec
from tests.support.specs import process_spec, run_spec, workload_spec

pytestmark = pytest.mark.processes


def arguments(folder: Path, spec: ClientSpec) -> list[str]:
    process, run = process_spec(folder, ObserverSpec(()), "o"), run_spec(workload_spec(spec))
    return [encode(process).decode(), encode(run).decode()]


def run_process(folder: Path, spec: ClientSpec) -> "subprocess.CompletedProcess[str]":
    """Run a process without a control line, which therefore ends as soon as it is ready."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "fencepost.runs.process", *arguments(folder, spec)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_another_client_version_ends_the_process_before_it_has_a_journal(tmp_path: Path) -> None:
    process = run_process(tmp_path, ClientSpec(version="9.9.9"))
    assert process.returncode == 1
    (message,) = process.stderr.splitlines()
    assert message.startswith(f"this process runs confluent-kafka {confluent_kafka.__version__} (librdkafka ")
    assert "--client librdkafka:9.9.9 requires another version" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spec", [ClientSpec(), ClientSpec("java", "3.9.1")], ids=["none", "java"])
def test_an_observer_runs_the_installed_librdkafka(spec: ClientSpec) -> None:
    """Only workers use a pinned version of the Java client."""
    code = (
        "from fencepost.runs import process; from harness.model.vocabulary import Role; "
        "from harness.processes.specs import ClientSpec; "
        f"spec = {spec!r}; client = process.running_client(Role.OBSERVER, spec); "
        "process.require_client(spec, client); print(client)"
    )
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.startswith(f"confluent-kafka {confluent_kafka.__version__} ")
