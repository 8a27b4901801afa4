"""A custom pipeline runs under faults and is checked by the broker logs alone."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import fencepost

COPIER = """
import json, signal, sys
from pathlib import Path
from confluent_kafka import Consumer, Producer, TopicPartition

bootstrap, folder, most = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
file = folder / "positions.json"
positions = json.loads(file.read_text()) if file.exists() else {}
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
count = len(consumer.list_topics("purchases", timeout=30).topics["purchases"].partitions)
consumer.assign([TopicPartition("purchases", n, positions.get(str(n), 0)) for n in range(count)])
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
print("started", flush=True)
done = 0
while done < most:
    message = consumer.poll(0.5)
    if message is None or message.error():
        continue
    producer.produce("invoices", message.value(), message.key())
    producer.flush(30)
    positions[str(message.partition())] = message.offset() + 1
    part = file.with_suffix(".part")
    part.write_text(json.dumps(positions))
    part.replace(file)
    done += 1
while True:
    signal.pause()
"""
POSITIONS = """
import json, sys
from pathlib import Path

file = Path(sys.argv[1]) / "positions.json"
for partition, following in (json.loads(file.read_text()) if file.exists() else {}).items():
    print("purchases", partition, following)
"""
EXPECT = """
import json


def purchase(rng, n):
    return f"customer-{n % 9}", json.dumps({"id": n})


def outputs(topic, key, value, headers):
    return [("invoices", key, value)]
"""
PIPELINE = """
name = "copy"
guarantee = "at-least-once"

[[stage]]
name = "copy"
reads = ["purchases"]
writes = ["invoices"]
command = ["python3", "copier.py", "{bootstrap}", "{data}", "MOST"]
instances = 1
ready = "line:started"
works_within_s = 5

[stage.progress]
command = ["python3", "positions.py", "{data}"]

[expect]
outputs = "expect.py:outputs"
correlate = "json:/id"

[inputs.purchases]
make = "expect.py:purchase"
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_offsets_outside_the_transaction_are_found_in_the_broker_logs_alone(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = shutil.copytree(EXAMPLES / "billing", tmp_path / "billing")
    description = folder / "offsets-after.toml"
    declared = (
        'transactional_id = "billing-{instance}"\n'  # without it, the fault finds the id in the requests
    )
    text = description.read_text().replace(declared, "").replace("{transactional_id}", "billing-{instance}")
    description.write_text(text)
    result = fencepost.run(
        pipeline=str(description),
        nemesis="kill-instance@ongoing",
        time_limit=12,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )
    anomalies = result.anomalies
    assert "offset-output-mismatch" in anomalies, result.explain()
    assert anomalies <= {"offset-output-mismatch", "reprocessed-input"}, result.explain()
    (fault,) = result.verdict["faults"]
    assert fault["acted"] and fault["details"]["transactional_id"].startswith("billing-"), fault
    assert {"EndTxn", "JoinGroup"} <= result.verdict["requests"].keys()
    assert result.verdict["coverage"]["committed"] > 0
    assert "keeps no journals" in result.verdict["not_checked"]["lost-commit"]
    assert result.folder.parent.name == "billing-offsets-after"


def test_a_correct_program_goes_on_within_the_bound_after_an_instance_was_killed(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    result = fencepost.run(
        pipeline=str(EXAMPLES / "billing" / "pipeline.toml"),
        nemesis="kill-instance",
        time_limit=15,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )
    assert result.valid is True, result.explain()
    (fault,) = result.verdict["faults"]
    liveness = fault["liveness"]
    assert liveness["not_known"] is None, liveness
    assert liveness["first_commit_s"] is not None and liveness["first_commit_after_heal_s"] is not None
    assert 0 < liveness["longest_gap_s"] < liveness["bound_s"], liveness
    assert liveness["lso_still_s"] is not None and liveness["aborted"] is not None, liveness
    assert "stalled" in result.verdict["checked"] and "stalled" not in result.verdict["anomalies"]
    recovery = f"recovery: commits again after {liveness['first_commit_s']:,.1f} s"
    assert recovery in (result.folder / "junit.xml").read_text()
    assert "Recovery in numbers" in (result.folder / "report.html").read_text()


def run_copier(
    runs_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> fencepost.Result:
    """Run a program that keeps its positions in a file, and processes no more than `most` inputs after each start."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name, text in (
        ("copier.py", COPIER),
        ("positions.py", POSITIONS),
        ("expect.py", EXPECT),
        ("pipeline.toml", PIPELINE.replace("MOST", str(most))),
    ):
        (folder / name).write_text(text)
    return fencepost.run(
        pipeline=str(folder / "pipeline.toml"),
        nemesis="none",
        time_limit=5,
        rate=40,
        partitions=2,
        seed=1,
        store=str(runs_folder / "store"),
    )


def test_a_stage_whose_printed_positions_stand_still_is_named_with_them(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_copier(runs_folder, tmp_path, monkeypatch, most=30)
    assert result.valid is None, result.explain()
    drain = next(each for each in result.verdict["unknown_because"] if each["code"] == "not-drained")
    assert drain["subject"] == "copy" and "inputs left; purchases/" in drain["text"], drain
    assert "is processed to offset" in drain["text"] and "[stage.progress]" in drain["remedy"]
    left = result.verdict["left"]
    assert left["unknown_rows"] == 0 and left["entries"]["committed_records"] > 0
    assert "stage copy in purchases/" in left["summary"], left["summary"]


def test_a_stage_is_over_when_its_printed_positions_reach_the_ends(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_copier(runs_folder, tmp_path, monkeypatch, most=1_000_000)
    assert result.valid is True, result.explain()
    left = result.verdict["left"]
    assert left["unknown_rows"] == 0 and left["entries"]["committed_records"] == 0
    assert left["summary"].startswith("Nothing is left: each stage has processed all committed inputs.")
    assert {row["partition"] for row in left["rows"]} == {0, 1}
