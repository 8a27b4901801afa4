"""An input topic gets partitions while a program runs: if it reads them it is valid, if not, it loses inputs."""

import shutil
from pathlib import Path

import pytest

import fencepost

BILLING = Path(__file__).resolve().parents[2] / "examples" / "billing"
SUBSCRIBES = 'consumer.subscribe([options.prefix + "purchases"])'
ASSIGNS = """inputs = [TopicPartition(options.prefix + "purchases", number) for number in range(6)]
for position in consumer.committed(inputs, timeout=30):
    inputs[position.partition].offset = max(position.offset, 0)
consumer.assign(inputs)
print("started", flush=True)"""


pytestmark = pytest.mark.usefixtures("python_of_examples")


def run(folder: Path, reads: str, stage: str = "") -> fencepost.Result:
    shutil.copytree(BILLING, folder / "billing")
    file, program = folder / "billing" / "pipeline.toml", folder / "billing" / "billing.py"
    file.write_text(
        file.read_text().replace("instances = 3", f"instances = 1\nmetadata_max_age_s = 5\n{stage}")
    )
    code = program.read_text()
    assert SUBSCRIBES in code
    quick = '"auto.offset.reset": "earliest",\n        "topic.metadata.refresh.interval.ms": 3000,'
    program.write_text(code.replace(SUBSCRIBES, reads).replace('"auto.offset.reset": "earliest",', quick))
    return fencepost.run(
        pipeline=str(file),
        nemesis="add-partitions@purchases",
        time_limit=20,
        rate=50,
        seed=1,
        store=str(folder / "store"),
    )


def test_a_program_that_reads_the_added_partitions_is_valid(tmp_path: Path) -> None:
    run(tmp_path, SUBSCRIBES).assert_valid()


def test_a_program_that_passes_the_added_partitions_over_loses_inputs(tmp_path: Path) -> None:
    result = run(tmp_path, ASSIGNS, 'ready = "line:started"')
    assert result.anomalies == {"lost-input"}
    assert "never read the partition of" in result.verdict["anomalies"]["lost-input"]["sentences"][0]
