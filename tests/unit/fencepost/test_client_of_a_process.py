"""A process of a run says which client it runs, before it does anything; another than was asked for ends it."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from harness.processes.encoding import encode
from harness.processes.specs import ClientSpec, ObserverSpec
from tests.support.specs import process_spec, run_spec, workload_spec


def specs(folder: Path, asked: ClientSpec) -> list[str]:
    process, run = process_spec(folder, ObserverSpec(()), "o"), run_spec(workload_spec(asked))
    return [encode(process).decode(), encode(run).decode()]


def ended(folder: Path, asked: ClientSpec) -> "subprocess.CompletedProcess[str]":
    """A process without a control line, which therefore ends as soon as it is ready."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "fencepost.runs.process", *specs(folder, asked)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_another_version_ends_the_process_with_a_sentence_and_leaves_no_journal(tmp_path: Path) -> None:
    done = ended(tmp_path, ClientSpec(version="9.9.9"))
    assert done.returncode == 1
    (words,) = done.stderr.splitlines()
    assert words.startswith(f"this process runs confluent-kafka {confluent_kafka.__version__} (librdkafka ")
    assert "--client librdkafka:9.9.9 requires another version" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [ClientSpec(), ClientSpec("java", "3.9.1")], ids=["none", "java"])
def test_who_reads_by_librdkafka_runs_the_installed_one(asked: ClientSpec) -> None:
    """A version of Java's client is the workers' alone: nobody else runs it."""
    code = (
        "from fencepost.runs import process; from harness.model.vocabulary import Role; "
        "from harness.processes.specs import ClientSpec; "
        f"asked = {asked!r}; running = process.running_client(Role.OBSERVER, asked); "
        "process.require_client(asked, running); print(running)"
    )
    told = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.startswith(f"confluent-kafka {confluent_kafka.__version__} ")
