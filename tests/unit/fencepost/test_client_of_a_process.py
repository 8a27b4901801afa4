"""A process of a run says which client it runs, before it does anything; another than was asked for ends it."""

import json
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

OBSERVER = {
    "role": "observer",
    "zero_ns": 0,
    "bootstrap": "127.0.0.1:1",
    "workload": "shop",
    "places": [],
    "client": "librdkafka",
}


def ended(folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """A process without a control line, which therefore ends as soon as it is ready."""
    spec = {**OBSERVER, "journal": "o", "path": str(folder / "o.jsonl"), **more}
    return subprocess.run(
        [sys.executable, "-P", "-m", "fencepost.process", json.dumps(spec)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_another_version_ends_the_process_with_a_sentence_and_leaves_no_journal(tmp_path: Path) -> None:
    done = ended(tmp_path, client_version="9.9.9")
    assert done.returncode == 1
    (words,) = done.stderr.splitlines()
    assert words.startswith(f"this process runs confluent-kafka {confluent_kafka.__version__} (librdkafka ")
    assert "--client librdkafka:9.9.9 was asked for" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [{}, {"client": "java", "client_version": "3.9.1"}], ids=["none", "java"])
def test_who_reads_by_librdkafka_runs_the_installed_one(tmp_path: Path, asked: dict[str, str]) -> None:
    """A version of Java's client is the workers' alone: nobody else runs it."""
    spec = json.dumps({**OBSERVER, "journal": "o", "path": str(tmp_path / "o.jsonl"), **asked})
    code = (
        f"import json; from fencepost import process; s = json.loads({spec!r}); r = process.running_client(s); "
        "process.require_client(s, r); print(r)"
    )
    told = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.startswith(f"confluent-kafka {confluent_kafka.__version__} ")
