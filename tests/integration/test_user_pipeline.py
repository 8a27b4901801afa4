"""A custom pipeline runs under faults and is checked by the broker logs alone."""

import shutil
from pathlib import Path

import pytest

import fencepost

COPIER = """
import json, sys
from pathlib import Path
from confluent_kafka import Consumer, Producer, TopicPartition

bootstrap, folder = sys.argv[1], Path(sys.argv[2])
file = folder / "positions.json"
positions = json.loads(file.read_text()) if file.exists() else {}
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
count = len(consumer.list_topics("purchases", timeout=30).topics["purchases"].partitions)
consumer.assign([TopicPartition("purchases", n, positions.get(str(n), 0)) for n in range(count)])
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
print("started", flush=True)
while True:
    message = consumer.poll(0.5)
    if message is None or message.error():
        continue
    producer.produce("invoices", message.value(), message.key())
    producer.flush(30)
    positions[str(message.partition())] = message.offset() + 1
    part = file.with_suffix(".part")
    part.write_text(json.dumps(positions))
    part.replace(file)
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
command = ["python3", "copier.py", "{bootstrap}", "{data}"]
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
pytestmark = pytest.mark.usefixtures("python_of_examples")


def test_offsets_outside_the_transaction_are_found_in_the_broker_logs_alone(
    runs_folder: Path, tmp_path: Path
) -> None:
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
        brokers=1,
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


def test_a_stage_is_over_when_its_printed_positions_reach_the_ends(runs_folder: Path, tmp_path: Path) -> None:
    """The program keeps its positions in a file."""
    for name, text in (
        ("copier.py", COPIER),
        ("positions.py", POSITIONS),
        ("expect.py", EXPECT),
        ("pipeline.toml", PIPELINE),
    ):
        (tmp_path / name).write_text(text)
    result = fencepost.run(
        pipeline=str(tmp_path / "pipeline.toml"),
        nemesis="none",
        brokers=1,
        time_limit=5,
        rate=40,
        partitions=2,
        seed=1,
        store=str(runs_folder / "store"),
    )
    assert result.valid is True, result.explain()
    left = result.verdict["left"]
    assert left["unknown_rows"] == 0 and left["entries"]["committed_records"] == 0
    assert left["summary"].startswith("Nothing is left: each stage has processed all committed inputs.")
    assert {row["partition"] for row in left["rows"]} == {0, 1}
