"""Custom pipelines whose mistakes show without any fault, by the broker logs alone."""

from pathlib import Path

import pytest

import fencepost

PROGRAMS = Path(__file__).parent / "programs"
PIPELINE = """
name = "clearing"
guarantee = "exactly-once"

[[stage]]
name = "clear"
reads = ["payments"]
writes = ["receipts", "dead-letters"]
group = "clearing"
command = [
    "python3", "{programs}/clearing.py", "--brokers", "{{bootstrap}}",
    "--transactional-id", "{{transactional_id}}", "--mistake", "{mistake}",
]
transactional_id = "clearing-{{instance}}"
instances = 2

[expect]
outputs = "{programs}/clearing_expect.py:outputs"
correlate = "json:/payment_id"

[inputs.payments]
make = "{programs}/clearing_expect.py:payment"
"""

pytestmark = pytest.mark.usefixtures("python_of_examples")


def _run(runs_folder: Path, mistake: str) -> fencepost.Result:
    """Run the program for some seconds without faults."""
    pipeline = runs_folder / f"{mistake}.toml"
    pipeline.write_text(PIPELINE.format(programs=PROGRAMS, mistake=mistake))
    return fencepost.run(
        pipeline=str(pipeline),
        nemesis="none",
        time_limit=10,
        rate=60,
        seed=1,
        store=str(runs_folder / "store"),
    )


def test_a_program_without_a_mistake_is_valid(runs_folder: Path) -> None:
    _run(runs_folder, "none").assert_valid()


@pytest.mark.parametrize(
    ("mistake", "anomaly"), [("dead-letter-outside", "offset-output-mismatch"), ("lets-through", "phantom")]
)
def test_a_mistake_is_found_without_any_fault(runs_folder: Path, mistake: str, anomaly: str) -> None:
    result = _run(runs_folder, mistake)
    anomalies = result.anomalies
    assert anomalies == {anomaly}, result.explain()
