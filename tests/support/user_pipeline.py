"""A small custom pipeline: `pipeline.toml`, and the Python file with its functions."""

from pathlib import Path

from workloads.custom.description import PipelineDescription
from workloads.custom.read import read

FUNCTIONS = """
import json


def purchase(rng, n):
    return f"customer-{rng.randrange(9)}", json.dumps({"id": n})


def outputs(topic, key, value, headers):
    return [("invoices", key, value)]


def total(state, topic, key, value):
    state = (state or 0) + int(value)
    return state, [("totals", key, str(state))]


def about(topic, key, value, headers):
    return json.loads(value).get("id")
"""
MINIMAL = """
name = "billing"

[[stage]]
name = "bill"
reads = ["purchases"]
writes = ["invoices"]
command = ["true"]

[inputs.purchases]
make = "expect.py:purchase"
"""
WITH_OUTPUTS = f"""{MINIMAL}
[expect]
outputs = "expect.py:outputs"
"""


def read_pipeline(folder: Path, text: str = WITH_OUTPUTS, functions: str = FUNCTIONS) -> PipelineDescription:
    """Write a pipeline and read it back.

    Raises:
        UsageError: The pipeline is not valid.
    """
    return read(write_pipeline(folder, text, functions))


def write_pipeline(folder: Path, text: str = WITH_OUTPUTS, functions: str = FUNCTIONS) -> Path:
    """Write `pipeline.toml` and `expect.py`, and return the path of the former."""
    (folder / "expect.py").write_text(functions)
    file = folder / "pipeline.toml"
    file.write_text(text)
    return file
