"""A small pipeline of a user's: its file, and the Python file beside it."""

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
EXPECTING = f"""{MINIMAL}
[expect]
outputs = "expect.py:outputs"
"""


def described(folder: Path, text: str = EXPECTING, functions: str = FUNCTIONS) -> PipelineDescription:
    """What is read of it. Raises `UsageError`."""
    return read(written(folder, text, functions))


def written(folder: Path, text: str = EXPECTING, functions: str = FUNCTIONS) -> Path:
    """The file `pipeline.toml`, with `expect.py` beside it."""
    (folder / "expect.py").write_text(functions)
    file = folder / "pipeline.toml"
    file.write_text(text)
    return file
